"""A table that is joined with the samples of a feed: opened, and checked against the samples."""
