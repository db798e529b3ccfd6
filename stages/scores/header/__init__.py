"""Scores from the first bytes of an image."""
