"""Performance by subgroup, and whether answers are stable."""
