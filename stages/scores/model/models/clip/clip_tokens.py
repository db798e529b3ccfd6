"""Captions as a CLIP's text tower takes them."""

import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from .....tokenize import named_tokenizer
from ....text.lengths import tokenizable, trim_cache
from ..model_fact import ModelFact
from .clip_hf_words import hf_tokenizer, hf_tokens
from .clip_weights import full_name
from .clip_words import clip_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

By = Literal["openclip", "hf"]

_lock = threading.Lock()  # tokenizers of transformers are for one thread at a time


def clip_item(model: str, text: str, by: By = "openclip") -> "str | NDArray[np.int32]":
    """Return what a decoder gives to the text tower: tokens without padding where it can make them, else the caption.

    Raises ScoreError "too-long".
    """
    context, words = known_context(model), clip_words()
    if context is None or words is None:
        return tokenizable(text)
    import numpy as np

    tokens = words.tokens if by == "openclip" else hf_tokens
    return np.array(tokens(tokenizable(text), context), np.int32)


def must_tokenize(model: str, by: By) -> None:
    """Raise ValueError if a model's captions cannot be tokenised in this way."""
    if by == "hf":
        hf_tokenizer()
        if known_context(model) is None:
            raise ValueError("tokenizer='hf' is for models with the vocabulary of OpenAI's CLIP; this one has another")


@cache
def plain_context(model: str) -> int | None:
    """Return the context length of a model whose captions ``ClipWords`` tokenises; None if OpenCLIP has to."""
    from open_clip import tokenizer as module

    tokenizer: Any = named_tokenizer(full_name(model))
    words = clip_words()
    plain = (
        words is not None
        and type(tokenizer) is module.SimpleTokenizer
        and tokenizer.reduction_fn is None
        and tokenizer.clean_fn is module.get_clean_fn("lower")
        and words.is_that_of(tokenizer.encoder, tokenizer.bpe_ranks, tokenizer.pat.pattern)
    )
    return int(tokenizer.context_length) if plain else None


known_context = ModelFact(plain_context)


def stacked(model: str, batch: Sequence[Any]) -> "NDArray[np.int32]":
    """Return what ``clip_item`` made of captions as one array, padded with 0 to the longest."""
    import numpy as np

    rows = [clip_tokens(model, item) if isinstance(item, str) else item for item in batch]
    found = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for row, tokens in enumerate(rows):
        found[row, : len(tokens)] = tokens
    return found


def clip_tokens(model: str, text: str) -> "NDArray[np.int32]":
    """Return tokens, padded and cut to the context length of the model."""
    tokenizer: Any = named_tokenizer(full_name(model))
    with _lock:
        tokens = tokenizer([text])[0]
        trim_cache(tokenizer)
    found: NDArray[np.int32] = tokens.numpy().astype("int32")
    return found
