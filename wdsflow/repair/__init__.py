"""Sound shards from hurt ones: members regrouped, junk left out, captions written, nothing lost unsaid."""
