"""One report format a file."""
