"""The samples of a tar as ranges of its bytes."""
