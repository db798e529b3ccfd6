"""Joins table rows to samples: which row a sample gets, and what its values become in fields."""
