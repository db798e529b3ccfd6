"""Rules, with related ones in one file.

The docstring of a rule is its manual page. ``kit`` has the code that rules share.
"""
