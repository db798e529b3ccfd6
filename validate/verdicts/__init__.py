"""From evidence to what becomes of samples: which pass, which are lost, and how that is said."""
