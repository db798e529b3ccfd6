"""Scores of captions that need no model on a device."""
