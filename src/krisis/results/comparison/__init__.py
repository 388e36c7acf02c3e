"""Stage 4: two or more runs on the same cases."""
