"""The contents of shards, for wdsflow inspect."""
