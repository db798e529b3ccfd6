"""How samples are compared: by equal items, near hashes, or similar vectors.

Near hashes differ in few bits. Similar vectors point in nearly the same direction.
"""
