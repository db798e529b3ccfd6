"""W: rules on tars and members."""
