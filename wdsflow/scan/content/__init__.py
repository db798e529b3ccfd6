"""What is in a field: image headers, captions, json, and what a decoder would say of them."""
