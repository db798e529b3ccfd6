"""F: rules on captions, in text and in json."""
