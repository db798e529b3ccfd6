"""One rule a file; its docstring is its manual page. ``kit`` has what rules share, ``catalog`` finds them all."""
