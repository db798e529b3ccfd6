"""What rules share: their base, what they see, and how they are run."""
