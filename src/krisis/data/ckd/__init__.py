"""Chronic kidney disease: an embedded cohort, the UCI file, three tasks, deferral labels."""
