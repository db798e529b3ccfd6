"""This computer: what is installed, how much it has, for wdsflow doctor."""
