"""What commands share: options, progress, and the messages where they refuse or fail."""
