"""A run is one file: its schema, how it is written and how it is read."""
