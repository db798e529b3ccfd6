"""Who works on shards: processes of this machine, or a Ray cluster."""
