"""Words and their tags, by Stanza's networks, in batches: parts of speech, entities."""
