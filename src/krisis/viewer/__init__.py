"""The local web pages over saved runs: on this machine only; no run is ever changed."""
