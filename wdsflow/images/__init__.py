"""Images as bytes: their headers, and calls to Pillow and libjpeg."""
