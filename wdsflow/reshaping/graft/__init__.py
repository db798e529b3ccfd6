"""Fields of samples added or replaced by a join with a table; images are not changed."""
