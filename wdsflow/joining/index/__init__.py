"""The index of a table on disk: how it is written, read, and kept for the next run."""
