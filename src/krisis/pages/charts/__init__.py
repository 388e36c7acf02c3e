"""One chart builder per kind, for one run or several: pages, papers and notebooks call the same."""
