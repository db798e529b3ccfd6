"""Finds samples that are equal or nearly so, among more than fit into memory."""
