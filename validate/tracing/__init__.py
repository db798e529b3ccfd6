"""Takes a pipeline apart, runs it with a meter after each stage, and reports the counts."""
