"""Captions as a CLIP's text tower takes them."""

import threading
from typing import TYPE_CHECKING, Any

from ...tokenize import named_tokenizer
from ..errors import ScoreError
from .clip_loading import full_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LONGEST_WORD, _LONGEST = 500, 20_000  # characters; the time of merging grows with the square of a word's length
_MOST_CACHED = 1 << 17  # words
_lock = threading.Lock()  # tokenizers of transformers are for one thread at a time


def checked(text: str) -> str:
    """Return a caption that can be tokenised. Raises ScoreError "too-long" beyond 20,000 characters, 500 in a word."""
    if len(text) > _LONGEST or max(map(len, text.split()), default=0) > _LONGEST_WORD:
        raise ScoreError("too-long", f"a caption of {len(text):,} characters, or one of its words, is too long")
    return text


def clip_tokens(model: str, text: str) -> "NDArray[np.int32]":
    """Return tokens, padded and cut to the context length of the model."""
    tokenizer: Any = named_tokenizer(full_name(model))
    with _lock:
        tokens = tokenizer([text])[0]
        cache = getattr(tokenizer, "cache", {})
        if len(cache) > _MOST_CACHED:  # it remembers each word that it has seen
            for word in list(cache)[len(tokenizer.all_special_ids) :]:
                del cache[word]
    found: NDArray[np.int32] = tokens.numpy().astype("int32")
    return found
