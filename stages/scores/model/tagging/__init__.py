"""Parts of speech and named entities of captions, by Stanza."""
