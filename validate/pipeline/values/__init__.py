"""What one element of a pipeline's output holds: its samples as rows, and their values as marks.

``elements`` tells samples, batches and keys apart; ``marks`` makes a value comparable; ``rows`` and
``sample_contents`` make rows of marks, of what comes out and of what the shards hold.
"""
