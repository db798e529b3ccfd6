"""The Parquet files with the scores of every sample, and lists exported from them."""
