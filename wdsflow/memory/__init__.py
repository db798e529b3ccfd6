"""Sizes and budgets in bytes."""
