"""Prove before training that shards will train."""
