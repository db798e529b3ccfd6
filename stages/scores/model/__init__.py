"""Scores that models compute, and their models.

Prepares inputs, and loads and runs models.
"""
