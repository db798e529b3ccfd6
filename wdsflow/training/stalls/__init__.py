"""Watches a feed: progress, losses, and the report when it stops."""
