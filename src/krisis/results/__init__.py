"""Stage 4: results, their files and reports."""
