"""Scores of pixels."""
