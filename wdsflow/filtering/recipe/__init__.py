"""What a run is asked to do, as a value that can be compared and stored."""
