"""Captions as the input of a text tower: as tokens where that is possible.

Decoders make the tokens without PyTorch.
"""

import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from ....named_tokenizers import named_tokenizer
from ...tokenizer_limits import tokenizable, trim_cache
from ..model_fact import ModelFact
from .clip_config import full_name
from .clip_words import PATTERN, ClipWords, clip_words
from .hf_tokens import hf_tokenizer, hf_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # (length) for a caption, (n, length) for a batch.
    Tokens = NDArray[np.int32]

Processor = Literal["openclip", "hf"]
# Tokenizers of transformers, which some models have, are not thread-safe.
_lock = threading.Lock()


def clip_item(model: str, text: str, processor: Processor = "openclip") -> "str | Tokens":
    """Return a caption as input of the text tower.

    It is tokens without padding if a decoder can make them, otherwise the caption.

    Raises ScoreError "too-long".
    """
    context = token_context(model)
    words = clip_words()
    if context is None or words is None:
        return tokenizable(text)
    import numpy as np

    tokenise = words.tokens if processor == "openclip" else hf_tokens
    return np.array(tokenise(tokenizable(text), context), np.int32)


def require_tokenizer(model: str, processor: Processor) -> None:
    """Raise ValueError if a processor cannot tokenise the captions of a model."""
    if processor == "openclip":
        return
    hf_tokenizer()
    if token_context(model) is None:
        raise ValueError(
            "processor='hf' is for models with the vocabulary of OpenAI's CLIP; this one has another"
        )


@ModelFact
@cache
def token_context(model: str) -> int | None:
    """Return the context length of a model whose captions ``ClipWords`` can tokenise.

    None if only OpenCLIP can.
    """
    tokenizer: Any = named_tokenizer(full_name(model))
    words = clip_words()
    if words is None or not _is_equivalent(words, tokenizer):
        return None
    return int(tokenizer.context_length)


def stack_tokens(model: str, batch: "Sequence[str | Tokens]") -> "Tokens":
    """Return items of ``clip_item`` as one array (n, longest), padded with 0 on the right."""
    import numpy as np

    rows = [clip_tokens(model, item) if isinstance(item, str) else item for item in batch]
    tokens = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = row
    return tokens


def clip_tokens(model: str, text: str) -> "Tokens":
    """Return tokens by OpenCLIP, padded and cut to the context length of the model."""
    tokenizer: Any = named_tokenizer(full_name(model))
    with _lock:
        row = tokenizer([text])[0]
        trim_cache(tokenizer)
    tokens: Tokens = row.numpy().astype("int32")
    return tokens


def _is_equivalent(words: ClipWords, tokenizer: Any) -> bool:
    """Return whether a tokenizer of OpenCLIP yields the same tokens."""
    from open_clip import tokenizer as module

    if type(tokenizer) is not module.SimpleTokenizer:
        return False
    if tokenizer.reduction_fn is not None:
        return False
    if tokenizer.clean_fn is not module.get_clean_fn("lower"):
        return False
    vocabulary = (tokenizer.encoder, tokenizer.bpe_ranks, tokenizer.pat.pattern)
    return vocabulary == (words.numbers, words.ranks, PATTERN)
