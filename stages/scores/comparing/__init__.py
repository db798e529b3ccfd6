"""How samples are compared: equal items, hashes that differ in few bits, vectors that point in nearly the same direction."""
