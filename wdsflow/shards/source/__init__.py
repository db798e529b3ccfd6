"""The bytes of a shard, wherever it is stored and however it is compressed."""
