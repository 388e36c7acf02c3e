"""The local web pages over saved runs: read-only, on this machine only."""
