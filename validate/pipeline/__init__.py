"""Any pipeline as a reader: it runs over a few real samples of each shape, and the counts of the scan do the rest."""
