"""Shards over HTTP, computed from byte ranges of others; nothing is written."""
