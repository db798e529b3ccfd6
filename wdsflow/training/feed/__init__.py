"""From shards to batches: order, reading ahead, shuffling."""
