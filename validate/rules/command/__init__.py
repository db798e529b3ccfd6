"""P: rules on the options of a training command."""
