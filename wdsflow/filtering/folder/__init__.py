"""The output folder: its lock, its contents, and the record of the run."""
