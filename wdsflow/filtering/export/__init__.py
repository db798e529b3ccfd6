"""Lists of the samples that a run has kept, in formats of other tools: one file for each kind of list."""
