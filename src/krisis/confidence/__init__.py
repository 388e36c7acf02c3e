"""Signals turned into confidence, and confidence calibrated."""
