"""The text of a predicate: its tokens, grammar and tree, and the errors that show the place."""
