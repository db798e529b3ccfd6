"""P: rules on what a training command will do with the shards."""
