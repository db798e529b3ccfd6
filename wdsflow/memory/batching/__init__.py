"""Bounded batches of items of any cost, and what to do when one does not fit in memory."""
