"""New shards from byte ranges of others: equal shards, joined fields; and differences between two sets."""
