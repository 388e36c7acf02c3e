"""A person answers the cases in a browser, as a run."""
