"""The recipe of a run, as a value that can be compared and stored."""
