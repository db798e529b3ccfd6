"""W: rules on the names of members, and on the keys that samples get from them."""
