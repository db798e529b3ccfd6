"""What predicates may name: the scores of the catalog and the facts of a sample.

Also their values, and why one is missing.
"""
