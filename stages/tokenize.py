"""Captions to tokens."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from wdsflow.shards.output_names import alternatives
from wdsflow.text.install import install_extras

from .base import Sample, SampleStage, StageError
from .fields import listed, present
from .tokenizer_contract import CaptionFailure, TokenizerContract

Tokenizer = Callable[[Any], Any]


@dataclass(frozen=True)
class Tokenize(SampleStage):
    """Replace captions by tokens: a LongTensor of ``context length``, as ``tokenizer(text)[0]`` gives it.

    ``tokenizer``: a callable from a list of n strings to a LongTensor (n, context length), or from one string to a row;
    or the name of an OpenCLIP model, whose tokenizer is made where it is used first. The first captions show which it
    is; TokenizerError is raised if it is neither. ``field`` may name alternatives. Captions that do not fit into the
    context are cut by the tokenizer: they are kept and noted as "truncated", or as "perhaps-truncated" where the
    tokenizer cannot be asked for more room by ``context_length=``.

    Fails: "no-text" (no such field), "not-text" (neither a string nor UTF-8), "too-long" (a tokenizer that refuses
    instead of cutting). Anything else that a tokenizer raises ends the run.
    """

    name: ClassVar[str] = "tokenize"

    tokenizer: Tokenizer | str
    field: str = "txt"
    _contract: TokenizerContract | None = dataclasses.field(
        default=None, init=False, compare=False, hash=False, repr=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.tokenizer, str):
            object.__setattr__(self, "_contract", TokenizerContract(self.tokenizer))
        object.__setattr__(self, "field", ";".join(alternatives(self.field)))

    @property
    def reads(self) -> frozenset[str]:
        """The caption."""
        return frozenset({self.field})

    @property
    def writes(self) -> frozenset[str]:
        """The same field, as tokens."""
        return self.reads

    def apply(self, sample: Sample) -> Sample:
        """Tokenize the caption of one sample."""
        names = present(sample, self.field.split(";"))
        if not names:
            raise StageError("no-text", f"it has none of {self.field!r}; its fields: {listed(sample)}")
        text = _text(sample[names[0]])
        contract = self._contract or named_contract(str(self.tokenizer))
        try:
            [tokens] = contract([text])
        except CaptionFailure as failure:
            error = failure.__cause__
            assert error is not None
            if "too long for context length" not in str(error):  # as OpenAI's clip says it
                raise error from None
            raise StageError("too-long", str(error)[:300]) from error
        tokens = _tensor(tokens)
        if len(text.encode("utf-8", "surrogatepass")) + 2 > len(tokens):  # a token stands for a byte at least
            note = _cut(contract, text, tokens)
            if note:
                self.counts.noted[note] += 1
        sample[names[0]] = tokens
        return sample


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, bytes):
        raise StageError("not-text", f"a {type(value).__name__}, no caption")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise StageError("not-text", f"it is not UTF-8: {error}") from error


@cache
def named_tokenizer(model: str) -> Tokenizer:
    """Return the tokenizer of an OpenCLIP model, once a process."""
    try:
        from open_clip import get_tokenizer
    except ImportError as error:
        raise ImportError(f"the tokenizer of {model!r} needs OpenCLIP: {install_extras('openclip')}") from error
    tokenizer: Tokenizer = get_tokenizer(model)
    return tokenizer


@cache
def named_contract(model: str) -> TokenizerContract:
    """Return the same, as it is called."""
    return TokenizerContract(named_tokenizer(model))


def _tensor(tokens: Any) -> Any:
    import numpy as np
    import torch

    return torch.from_numpy(tokens) if isinstance(tokens, np.ndarray) else tokens


def _cut(contract: TokenizerContract, text: str, tokens: Any) -> str:
    """Return what to note of a caption, "" if the tokens surely hold all of it."""
    empty = contract.call("")
    if not len(empty):  # not padded
        return "perhaps-truncated"
    padding = int(empty[-1])
    if int(tokens[-1]) == padding == int(tokens[-2]):
        return ""
    try:
        more = contract.call(text, context_length=4 * len(tokens))
    except TypeError:
        return "perhaps-truncated"
    beyond = more[len(tokens) :]
    if not len(beyond):  # it takes any option
        return "perhaps-truncated"
    return "truncated" if bool((beyond != beyond[-1]).any()) or int(more[-1]) != padding else ""
