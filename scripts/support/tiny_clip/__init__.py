"""A small CLIP of our own: a world of shapes to train it on, the recipe, and the way to load it."""
