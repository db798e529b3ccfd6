"""Audio and video as bytes: formats by first bytes, and the length by the header."""
