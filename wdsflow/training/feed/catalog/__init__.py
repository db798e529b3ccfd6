"""What a feed is made of: its shards, a reference for each of their samples, and how many samples there are."""
