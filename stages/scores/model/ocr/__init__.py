"""Text in pictures, by EasyOCR."""
