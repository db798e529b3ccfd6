"""Bounded batches of items of any cost, and what happens to an item that does not fit in memory."""
