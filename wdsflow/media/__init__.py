"""Audio and video as bytes: what a file is by its first bytes, and how long it says that it is."""
