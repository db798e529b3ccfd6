"""What shards hold, for wdsflow inspect."""
