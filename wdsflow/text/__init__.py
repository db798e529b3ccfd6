"""Text for people: escaping, counts and units, quoting of commands, how to install what is missing."""
