"""The samples of a shard as scores see them, and what differs between kinds of shards."""
