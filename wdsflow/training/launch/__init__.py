"""Standing inside OpenCLIP's training: start, checkpoints, resume, and the look at the shards before."""
