"""Finished predictions of other programs, made into runs that every later command takes."""
