"""What would help: commands, and how many samples each would bring."""
