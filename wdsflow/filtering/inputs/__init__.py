"""Checks of the input shards before the first is filtered.

They find out whether the fields and values that a recipe names exist.
"""
