"""The running epoch: which samples come next, the loop that has them decoded, and the batches made of them."""
