"""The local web pages over saved runs."""
