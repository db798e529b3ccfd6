"""Text for users: escaping, counts and units, quoting of commands, commands that install packages."""
