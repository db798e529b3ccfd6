"""Models of transformers, and their scores."""
