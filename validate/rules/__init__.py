"""One rule a file; its docstring is its manual page. ``kit`` has what rules share, ``rule_catalog`` finds them all."""
