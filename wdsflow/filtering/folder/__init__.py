"""The output folder: who may work in it, what is in it, and its record."""
