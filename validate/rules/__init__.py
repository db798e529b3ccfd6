"""One rule per file; its docstring is its manual page. ``kit`` has the code that rules share, ``rule_catalog`` finds all rules."""
