"""Text for users: escaping, counts and units, quoting of commands, and install commands."""
