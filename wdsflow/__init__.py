"""Prove that WebDataset shards will train, before a GPU is booked."""

__version__ = "0.1.0"
