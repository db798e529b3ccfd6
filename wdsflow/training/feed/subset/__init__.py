"""Training on the samples that a ledger keeps."""
