"""A function over many rows, within a bound on the memory of all processes."""
