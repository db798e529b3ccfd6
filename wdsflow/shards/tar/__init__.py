"""One tar: headers, members, and a walk over them by tarfile's rules."""
