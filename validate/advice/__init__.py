"""Advice: commands that help, and how many samples each would bring back."""
