"""What a training command will do: shards, samples and memory of each worker of each rank."""
