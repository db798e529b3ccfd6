"""The second pass: one shard, written from the plan."""
