"""Images as bytes: their headers, and Pillow and libjpeg as they come."""
