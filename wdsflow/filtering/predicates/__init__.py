"""What predicates may name: the scores of the catalog and the facts of a sample; values, and why one is missing."""
