"""W: rules on tars as archives."""
