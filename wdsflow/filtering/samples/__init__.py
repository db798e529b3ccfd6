"""The samples of a tar as scores see them: read from the tar, changed by stages."""
