"""Captions to tokens by transformers' CLIPTokenizer, with the vocabulary that OpenCLIP brings: nothing is downloaded.

It is the tokenizer of transformers' CLIP processors, and so of Data-Juicer: other than OpenCLIP's it does not repair text.
"""

import threading
from functools import lru_cache
from typing import Any

from .clip_words import clip_words

_lock = threading.Lock()  # tokenizers of transformers are for one thread at a time


def hf_tokens(text: str, most: int) -> list[int]:
    """Return the tokens of a caption between those of start and end, at most ``most``."""
    with _lock:
        found: list[int] = hf_tokenizer()(text, truncation=True, max_length=most, verbose=False)["input_ids"]
    return found


@lru_cache(maxsize=1)
def hf_tokenizer() -> Any:
    """Return the tokenizer. Raises ImportError without transformers, ValueError if OpenCLIP's vocabulary is not found."""
    from transformers import CLIPTokenizer

    words = clip_words()
    if words is None:
        raise ValueError("tokenizer='hf' needs the vocabulary in the package open_clip_torch")
    numbers = dict(words.numbers)
    numbers["<|startoftext|>"], numbers["<|endoftext|>"] = numbers.pop("<start_of_text>"), numbers.pop("<end_of_text>")
    tokenizer: Any = CLIPTokenizer  # in part without types
    return tokenizer(vocab=numbers, merges=words.merges)
