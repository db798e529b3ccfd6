"""How a pipeline is taken apart, run with a meter after each stage, and reported."""
