"""Embeddings in the ledger: written as half floats, and read by other scores of the same model."""
