"""Captions as tokens of transformers' CLIPTokenizer, with OpenCLIP's vocabulary.

Nothing is downloaded.

It is the tokenizer of transformers' CLIP processors, and so of Data-Juicer: unlike OpenCLIP's, it
does not repair text.
"""

import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .clip_words import END, START, clip_words

if TYPE_CHECKING:
    from transformers import CLIPTokenizer

# Tokenizers of transformers are not thread-safe.
_lock = threading.Lock()


def hf_tokens(text: str, most: int) -> list[int]:
    """Return the tokens of a caption between those of start and end, at most ``most``."""
    with _lock:
        encoding = hf_tokenizer()(text, truncation=True, max_length=most, verbose=False)
    tokens: list[int] = encoding["input_ids"]
    return tokens


@lru_cache(maxsize=1)
def hf_tokenizer() -> "CLIPTokenizer":
    """Return the tokenizer.

    Raises ImportError without transformers, ValueError if OpenCLIP's vocabulary is not installed.
    """
    from transformers import CLIPTokenizer

    words = clip_words()
    if words is None:
        raise ValueError("processor='hf' needs the vocabulary in the package open_clip_torch")
    numbers = dict(words.numbers)
    numbers["<|startoftext|>"] = numbers.pop(START)
    numbers["<|endoftext|>"] = numbers.pop(END)
    # Has incomplete types.
    tokenizer: Any = CLIPTokenizer
    return tokenizer(vocab=numbers, merges=words.merges)
