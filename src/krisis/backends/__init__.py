"""Stage 2: backends, which put records to a model."""
