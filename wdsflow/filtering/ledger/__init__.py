"""The Parquet files with the scores of every sample."""
