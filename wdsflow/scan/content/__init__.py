"""The contents of a field: image headers, captions, json, and how a decoder would judge them."""
