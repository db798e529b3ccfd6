"""The files that rows name: on this machine, in a zip, in an object store, or in cells."""
