"""Pictures as the input of models."""
