"""Scores from pixels."""
