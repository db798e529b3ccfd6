"""Scores that models compute."""
