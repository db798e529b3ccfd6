"""Sound shards from damaged ones: members regrouped, junk left out, captions written, every loss reported."""
