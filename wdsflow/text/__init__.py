"""Text for people: commands that can be pasted."""
