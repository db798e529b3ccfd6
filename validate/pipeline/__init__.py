"""Any pipeline as a reader: it runs over a few real samples of each shape; the scan's counts scale the results."""
