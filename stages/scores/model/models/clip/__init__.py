"""CLIP as scores use it: loading, its two towers, its tokenizers."""
