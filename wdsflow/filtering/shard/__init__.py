"""The work on one shard, in the order in which it happens."""
