"""Captions to tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from wdsflow.shards.field_names import alternatives
from wdsflow.text.install import install_extras

from .base import Sample, SampleStage, StageError
from .fields import listed, present

Tokenizer = Callable[[str], Any]


@dataclass(frozen=True)
class Tokenize(SampleStage):
    """Replace captions by tokens: a LongTensor of ``context length``, as ``tokenizer(text)[0]`` gives it.

    ``tokenizer``: a callable from a string to a LongTensor (1, context length), or the name of an OpenCLIP model,
    whose tokenizer is made where it is used first. ``field`` may name alternatives. Captions that do not fit into the
    context are cut by the tokenizer: they are kept and noted as "truncated", or as "perhaps-truncated" where the
    tokenizer cannot be asked for more room by ``context_length=``.

    Fails: "no-text" (no such field), "not-text" (neither a string nor UTF-8), "too-long" (a tokenizer that refuses
    instead of cutting). Anything else that a tokenizer raises ends the run.
    """

    name: ClassVar[str] = "tokenize"

    tokenizer: Tokenizer | str
    field: str = "txt"

    def __post_init__(self) -> None:
        super().__post_init__()
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
        tokenizer = named_tokenizer(self.tokenizer) if isinstance(self.tokenizer, str) else self.tokenizer
        try:
            tokens = tokenizer(text)[0]
        except RuntimeError as error:
            if "too long for context length" not in str(error):  # as OpenAI's clip says it
                raise
            raise StageError("too-long", str(error)[:300]) from error
        if len(text.encode("utf-8", "surrogatepass")) + 2 > len(tokens):  # a token stands for a byte at least
            note = _cut(tokenizer, text, tokens)
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


def _cut(tokenizer: Tokenizer, text: str, tokens: Any) -> str:
    """Return what to note of a caption, "" if the tokens surely hold all of it."""
    padding = int(tokenizer("")[0][-1])
    if int(tokens[-1]) == padding == int(tokens[-2]):
        return ""
    try:
        more = tokenizer(text, context_length=4 * len(tokens))[0]  # type: ignore[call-arg]
    except TypeError:
        return "perhaps-truncated"
    beyond = more[len(tokens) :]
    return "truncated" if bool((beyond != beyond[-1]).any()) or int(more[-1]) != padding else ""
