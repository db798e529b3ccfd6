"""New shards from byte ranges of others: equal shards, joined fields."""
