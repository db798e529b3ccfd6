"""This computer: what is installed, and its resources, for wdsflow doctor."""
