"""Diabetes in adults of the survey NHANES 2017–2018."""
