"""New shards from byte ranges of others: equal shards, joined fields; and what differs between two sets."""
