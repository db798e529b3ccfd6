"""Data-Juicer's form of a data set as a shard: a JSON object a line, with paths of images or videos, and tokens in the text."""
