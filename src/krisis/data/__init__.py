"""Stage 1: clinical suites, which produce patient records."""
