"""From the bytes of an image to pixels of the size that is needed."""
