"""The tokenizers of OpenCLIP's models, by name."""

from collections.abc import Callable
from functools import cache

from wdsflow.text.install import install_extras

from .tokenizer_contract import TokenizerContract

Tokenizer = Callable[..., object]


@cache
def named_tokenizer(model: str) -> Tokenizer:
    """Return the tokenizer of an OpenCLIP model, made once per process."""
    try:
        from open_clip import get_tokenizer
    except ImportError as error:
        raise ImportError(
            f"the tokenizer of {model!r} needs OpenCLIP: {install_extras('openclip')}"
        ) from error
    tokenizer: Tokenizer = get_tokenizer(model)
    return tokenizer


@cache
def named_contract(model: str) -> TokenizerContract:
    """Return the contract of the tokenizer of an OpenCLIP model, made once per process."""
    return TokenizerContract(named_tokenizer(model))
