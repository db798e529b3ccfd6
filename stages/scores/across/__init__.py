"""Comparing samples with each other: in bounded memory, whatever the order in which they come."""
