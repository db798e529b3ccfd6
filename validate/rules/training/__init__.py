"""P: rules on what ranks, workers and memory get of the shards."""
