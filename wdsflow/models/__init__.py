"""Processes that run the models of scores: one per device, for all workers."""
