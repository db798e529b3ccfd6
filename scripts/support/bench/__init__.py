"""Measurements of wdsflow next to its peers."""
