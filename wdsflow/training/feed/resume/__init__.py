"""The position of a feed, as a state from which it can continue."""
