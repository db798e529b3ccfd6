"""The page of a run: its flow, its scores, and sliders to choose a threshold."""
