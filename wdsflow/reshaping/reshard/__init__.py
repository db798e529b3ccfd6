"""Equal shards, shuffled, split or ordered by key: two passes over byte ranges, in bounded memory."""
