"""Filtering of shards: scores, a predicate over them, and survivors copied byte for byte."""
