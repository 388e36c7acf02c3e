"""Charts and the self-contained HTML report, drawn from saved results without a network."""
