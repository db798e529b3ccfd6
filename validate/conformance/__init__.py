"""Predictions compared with the real readers, on random shard sets that are hurt in every known way."""
