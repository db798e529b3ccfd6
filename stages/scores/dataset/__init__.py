"""Scores that compare samples with each other."""
