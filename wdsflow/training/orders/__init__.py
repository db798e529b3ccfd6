"""Orders: which samples come when, from which streams. They are data: no shard is opened here."""
