"""F: rules on fields, captions and json."""
