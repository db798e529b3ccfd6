"""How a pipeline is taken apart, run with a meter behind each stage, and reported."""
