"""Captions as models of transformers take them. Decoders need not load transformers where the tokenizer is a plain file."""

import json
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from .model_fact import ModelFact
from .model_hub import config_of, tokenizer_of, where

_lock = threading.Lock()  # tokenizers are for one thread at a time
_FILE = "tokenizer.json"
_TRIAL = "A Ne\u0301w photo, of\ttwo  DOGS\u2019 n\u00e4me: 1,234 \u732b\U0001f600 <b>x</b>\n"


class TextFacts(NamedTuple):
    """What decoders have to know of a model to make tokens of a caption.

    ``file``: a tokenizer.json that says all, read by the library tokenizers alone; "" if transformers has to be asked.
    ``side``: where what is too long is cut. ``bound``: tokens that model and tokenizer take at most. ``start``: the
    token that begins a text, else the one that ends it.
    """

    file: str
    side: str
    bound: int | None
    start: int | None


@lru_cache(maxsize=16)
def _found(name: str) -> TextFacts:
    """Return what is known of a model, by transformers."""
    tokenizer = tokenizer_of(name)
    bounds = [tokenizer.model_max_length, getattr(config_of(name), "max_position_embeddings", None)]
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    side = str(getattr(tokenizer, "truncation_side", "right"))
    return TextFacts(
        _file_of(name, tokenizer, side), side, min((int(each) for each in bounds if each), default=None), start
    )


text_facts = ModelFact(_found)


def longest(name: str, most: int) -> int:
    """Return how many tokens a text may have: ``most``, or fewer where the model or its tokenizer takes no more."""
    return min(most, text_facts(name).bound or most)


def token_ids(name: str, text: str, most: int, *, special: bool = True) -> list[int]:
    """Return the tokens of a text, cut to ``most``, with those that frame it if ``special``."""
    facts = text_facts(name)
    with _lock:
        if text_facts.is_shared(name) and facts.file:
            ids = _by_file(_plain(facts.file), facts.side, text, most, special=special)
        else:
            ids = _by_transformers(tokenizer_of(name), text, most, special=special)
    return ids[:most]  # where there is no room for those that frame it, tokenizers do not cut at all


def _file_of(name: str, tokenizer: Any, side: str) -> str:
    """Return the file of a tokenizer that it alone decides tokens by, "" if there is none: held against transformers'."""
    try:
        from transformers.utils.hub import cached_file

        given = where(name)
        folder, revision = given["pretrained_model_name_or_path"], given.get("revision")
        path = Path(cached_file(folder, _FILE, revision=revision, local_files_only=True) or "")
        if not path.is_file() or _rules(_plain(str(path))) != _rules(tokenizer.backend_tokenizer):
            return ""
        text = _TRIAL + " ".join(tokenizer.all_special_tokens)
        for most, special in ((512, True), (512, False), (4, True), (4, False)):
            expected = _by_transformers(tokenizer, text, most, special=special)
            if _by_file(_plain(str(path)), side, text, most, special=special) != expected:
                return ""
    except (ImportError, AttributeError, OSError, TypeError, ValueError):
        return ""  # a tokenizer of another kind
    return str(path.absolute())


def _rules(tokenizer: Any) -> dict[str, Any]:
    """Return all that makes a tokenizer but what is set for each call."""
    found: dict[str, Any] = json.loads(tokenizer.to_str())
    return {part: value for part, value in found.items() if part not in {"truncation", "padding"}}


@lru_cache(maxsize=16)
def _plain(file: str) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(file)
    tokenizer.no_padding()
    return tokenizer


def _by_file(tokenizer: Any, side: str, text: str, most: int, *, special: bool) -> list[int]:
    tokenizer.enable_truncation(most, direction=side)
    ids: list[int] = tokenizer.encode(text, add_special_tokens=special).ids
    return ids


def _by_transformers(tokenizer: Any, text: str, most: int, *, special: bool) -> list[int]:
    found = tokenizer(text, truncation=True, max_length=most, add_special_tokens=special, verbose=False)
    ids: list[int] = found["input_ids"]
    return ids
