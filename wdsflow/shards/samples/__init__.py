"""The samples of a tar as ranges of its bytes, and tars made of such ranges."""
