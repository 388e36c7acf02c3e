"""How fast and how far a run may go: budget, rates, pauses and simultaneous calls."""
