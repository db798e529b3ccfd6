"""What the scripts share. Not part of the package."""
