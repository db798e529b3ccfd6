"""Feed OpenCLIP from WebDataset shards: fast, exact, and never silently starving."""
