"""Scores of the first bytes of an image."""
