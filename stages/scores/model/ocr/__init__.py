"""Text in pictures, by EasyOCR's networks, in batches: where it is (CRAFT), and what it reads."""
