"""The models that scores ask: what a picture or a caption becomes before them, how they are loaded and run."""
