"""Which bytes the shards of a set have, as a file: a certificate, or a manifest."""
