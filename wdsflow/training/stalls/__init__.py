"""Watching a feed: progress, losses, and what is said when it stops."""
