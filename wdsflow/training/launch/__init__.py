"""Runs inside OpenCLIP's training: start, checkpoints, resume, and a check of the shards first."""
