"""Words and their tags by Stanza's networks, in batches of our own: parts of speech, entities."""
