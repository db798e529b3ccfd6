"""The running epoch: the samples that come next, the decoding loop, and the batches."""
