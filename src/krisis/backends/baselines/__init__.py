"""Baselines that every model is read against; they enter by the same door as a model."""
