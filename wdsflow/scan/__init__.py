"""From bytes to evidence: what shards hold, member by member and field by field."""
