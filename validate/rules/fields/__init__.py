"""F: rules on the fields of samples."""
