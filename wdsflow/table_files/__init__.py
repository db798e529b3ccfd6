"""Files of tables as their users have them, and messages about those that cannot be read."""
