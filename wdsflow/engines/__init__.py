"""Engines that run tasks on shards: processes of this machine, or a Ray cluster."""
