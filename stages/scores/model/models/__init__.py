"""The models of scores: how pictures and captions are prepared, and how models are loaded and run."""
