"""Bounded batches of items of any cost, and recovery from items that do not fit in memory."""
