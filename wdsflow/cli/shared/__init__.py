"""Code that commands share: options, progress, and messages for refusals and failures."""
