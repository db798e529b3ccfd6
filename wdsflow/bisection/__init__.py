"""The smallest shards with which a command still fails: delta debugging over shards, then samples."""
