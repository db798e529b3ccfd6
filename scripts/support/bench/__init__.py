"""Measurements of wdsflow beside its peers."""
