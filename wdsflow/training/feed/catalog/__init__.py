"""What a feed is made of: its shards, references to their samples, and the number of samples."""
