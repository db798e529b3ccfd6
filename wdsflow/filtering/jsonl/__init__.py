"""Data-Juicer's JSON lines as shards: one object per line, with paths of images or videos, and tokens in the text."""
