"""OpenCLIP 3.3 and 4, and wdsflow's feed for them.

Covers flags, the start, the shards of each worker, and dropped samples.
"""
