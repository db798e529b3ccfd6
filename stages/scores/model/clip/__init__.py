"""CLIPs of OpenCLIP, and scores on their embeddings."""
