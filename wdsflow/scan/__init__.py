"""From bytes to evidence: the contents of shards, member by member and field by field."""
