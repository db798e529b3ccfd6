"""Stages: what happens to one sample on its way from a tar to a batch."""
