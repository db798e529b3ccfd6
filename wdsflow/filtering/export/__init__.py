"""Lists of the samples that a run has kept, in formats of other tools.

There is one file for each kind of list.
"""
