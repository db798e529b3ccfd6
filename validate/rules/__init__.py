"""One rule a file; its docstring is its manual page."""
