"""Scores that models compute, and their models: how inputs are prepared, and how models are loaded and run."""
