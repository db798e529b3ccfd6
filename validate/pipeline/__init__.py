"""The user's own pipeline: one run of it over the shards, and checks whether it resumes, forks and splits."""
