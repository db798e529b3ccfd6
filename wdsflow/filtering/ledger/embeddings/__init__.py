"""Embeddings in the ledger: written as half floats, and read again by other scores of the same model."""
