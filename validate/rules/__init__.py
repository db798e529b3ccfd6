"""Rules, the related ones in one file; the docstring of a rule is its manual page. ``kit`` has the code that rules share."""
