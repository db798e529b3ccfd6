"""Processes and threads that decode."""
