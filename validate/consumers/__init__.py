"""One file a reader."""
