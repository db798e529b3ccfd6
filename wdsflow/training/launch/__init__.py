"""Runs inside OpenCLIP's training: start, checkpoints, resume, and the check of the shards before."""
