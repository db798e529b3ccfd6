"""A small CLIP of  own_X: a world of shapes to train it on, the recipe, and the way to load it."""
