"""Tar shards as bytes and as samples."""
