"""Files that tell about shards: sizes, indexes of trainers, checksums."""
