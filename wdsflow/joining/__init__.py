"""Rows of tables for samples: which row a sample gets, and what its values become in the fields of the sample."""
