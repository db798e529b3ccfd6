"""The first pass: the rows of tables and folders, planned as samples."""
