"""From the bytes of an image to its tensor in a batch."""
