"""A page of one run, and a figure of several."""
