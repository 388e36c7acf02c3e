"""Chronic kidney disease: an embedded cohort, files, five tasks, deferral labels."""
