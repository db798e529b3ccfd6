"""Models of scores at work: one process a device, whatever the number of those who ask."""
