"""Captions as tokens for a model of transformers.

For most models, decoders need not import transformers.
"""

import json
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..model_fact import ModelFact
from .loading import config_of, from_pretrained_arguments, tokenizer_of

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

# Tokenizers are not thread-safe.
_lock = threading.Lock()
_FILE = "tokenizer.json"
# A text on which tokenizers differ, and the calls for which they are compared: the maximum number
# of tokens, and whether start and end are added.
_TRIAL = "A Ne\u0301w photo, of\ttwo  DOGS\u2019 n\u00e4me: 1,234 \u732b\U0001f600 <b>x</b>\n"
_TRIAL_CALLS = ((512, True), (512, False), (4, True), (4, False))
# Options of a call, which are not part of a tokenizer's definition.
_CALL_OPTIONS = frozenset({"truncation", "padding"})


class TextFacts(NamedTuple):
    """The facts about a model that decoders need to tokenize captions.

    ``file``: a tokenizer.json that the library tokenizers can read by itself; "" if transformers is
    needed. ``side``: the side at which a long text is cut. ``bound``: the maximum number of tokens
    of model and tokenizer. ``start``: the token that begins a text, otherwise the one that ends it.
    """

    file: str
    side: str
    bound: int | None
    start: int | None


@ModelFact
@lru_cache(maxsize=16)
def text_facts(name: str) -> TextFacts:
    """Return the facts about a model's tokens."""
    tokenizer = tokenizer_of(name)
    # A model of pictures and texts, such as BLIP, has another configuration for texts.
    config = config_of(name).get_text_config()
    limits = [tokenizer.model_max_length, getattr(config, "max_position_embeddings", None)]
    bound = min((int(limit) for limit in limits if limit), default=None)
    start = tokenizer.bos_token_id
    if start is None:
        start = tokenizer.eos_token_id
    side = str(getattr(tokenizer, "truncation_side", "right"))
    return TextFacts(_equivalent_file(name, tokenizer, side), side, bound, start)


def token_limit(name: str, most: int) -> int:
    """Return the maximum number of tokens, at most ``most``.

    It is less if the model or its tokenizer has a lower limit.
    """
    return min(most, text_facts(name).bound or most)


def token_ids(name: str, text: str, most: int, *, special: bool = True) -> list[int]:
    """Return the tokens of a text, cut to ``most``, with start and end tokens if ``special``."""
    facts = text_facts(name)
    with _lock:
        if text_facts.is_shared(name) and facts.file:
            tokenizer = _read_tokenizer(facts.file)
            ids = _ids_by_file(tokenizer, facts.side, text, most, special=special)
        else:
            ids = _ids_by_transformers(tokenizer_of(name), text, most, special=special)
    # Tokenizers do not cut if there is no room for start and end tokens.
    return ids[:most]


def padded(
    batch: "Sequence[Sequence[int] | NDArray[np.int32]]", device: str, fill: int = 0
) -> "dict[str, torch.Tensor]":
    """Return ``input_ids`` and ``attention_mask`` (n, longest), padded on the right.

    Positions count from each text's start, so that causal attention does not see the padding.
    """
    import numpy as np
    import torch

    ids = np.full((len(batch), max(map(len, batch))), fill, np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {
        "input_ids": torch.from_numpy(ids).to(device),
        "attention_mask": torch.from_numpy(mask).to(device),
    }


def _equivalent_file(name: str, tokenizer: Any, side: str) -> str:
    """Return a tokenizer's file if it yields the same tokens as transformers, otherwise ""."""
    try:
        path = _tokenizer_file(name)
        if path is None or not _is_equivalent(path, tokenizer, side):
            return ""
    except (ImportError, AttributeError, OSError, TypeError, ValueError):
        # A tokenizer of another kind.
        return ""
    return str(path.absolute())


def _tokenizer_file(name: str) -> Path | None:
    """Return the tokenizer.json of a model, None if it has none.

    It is in the model's folder or in the hub's cache.
    """
    from transformers.utils.hub import cached_file

    arguments = from_pretrained_arguments(name)
    cached = cached_file(
        arguments["pretrained_model_name_or_path"],
        _FILE,
        revision=arguments.get("revision"),
        local_files_only=True,
    )
    path = Path(cached or "")
    return path if path.is_file() else None


def _is_equivalent(path: Path, tokenizer: Any, side: str) -> bool:
    """Return whether a tokenizer file is equivalent to transformers' tokenizer.

    Its definition must be the same, and yield the same tokens in a trial.
    """
    by_file = _read_tokenizer(str(path))
    if _definition(by_file) != _definition(tokenizer.backend_tokenizer):
        return False
    text = _TRIAL + " ".join(tokenizer.all_special_tokens)
    for most, special in _TRIAL_CALLS:
        expected = _ids_by_transformers(tokenizer, text, most, special=special)
        if _ids_by_file(by_file, side, text, most, special=special) != expected:
            return False
    return True


def _definition(tokenizer: "Tokenizer") -> dict[str, object]:
    """Return the definition of a tokenizer, without the options of a call."""
    parts = json.loads(tokenizer.to_str())
    return {name: value for name, value in parts.items() if name not in _CALL_OPTIONS}


@lru_cache(maxsize=16)
def _read_tokenizer(file: str) -> "Tokenizer":
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(file)
    tokenizer.no_padding()
    return tokenizer


def _ids_by_file(
    tokenizer: "Tokenizer", side: str, text: str, most: int, *, special: bool
) -> list[int]:
    tokenizer.enable_truncation(most, direction=side)
    return list(tokenizer.encode(text, add_special_tokens=special).ids)


def _ids_by_transformers(tokenizer: Any, text: str, most: int, *, special: bool) -> list[int]:
    encoding = tokenizer(
        text, truncation=True, max_length=most, add_special_tokens=special, verbose=False
    )
    return list(encoding["input_ids"])
