"""I: rules on images."""
