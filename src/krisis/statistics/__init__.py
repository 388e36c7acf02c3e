"""Intervals, resampling and tests in plain NumPy and SciPy."""
