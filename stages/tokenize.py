"""Replaces captions by tokens."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from wdsflow.shards.shard_names import alternatives

from .base import Sample, SampleStage, StageError
from .fields import fields_text, present_names
from .named_tokenizers import Tokenizer, named_contract
from .tokenizer_contract import CaptionFailure, TokenizerContract

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Tokenize(SampleStage, name="tokenize", read_by="field", written_by="field"):
    """Replace captions by tokens: a LongTensor of ``context length``.

    It is equal to ``tokenizer(text)[0]``.

    ``tokenizer``: a callable from a list of n strings to a LongTensor (n, context length), or from
    one string to a row; or the name of an OpenCLIP model, whose tokenizer is created on first use.
    Which kind of callable it is, is tested with the first captions; TokenizerError if it is
    neither. ``field`` may name alternatives. Captions that do not fit into the context are cut by
    the tokenizer: they are kept and noted as "truncated", or as "perhaps-truncated" if the
    tokenizer has no option ``context_length``.

    Errors: "no-text" (no such field), "not-text" (neither a string nor UTF-8), "too-long" (the
    tokenizer raises instead of cutting). Any other exception of a tokenizer ends the run.
    """

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

    def apply(self, sample: Sample) -> Sample:
        names = present_names(sample, self.field.split(";"))
        if not names:
            raise StageError(
                "no-text", f"it has none of {self.field!r}; its fields: {fields_text(sample)}"
            )
        text = _text(sample[names[0]])
        contract = self._contract or named_contract(str(self.tokenizer))
        try:
            [row] = contract([text])
        except CaptionFailure as failure:
            error = failure.__cause__
            assert error is not None
            # The message of OpenAI's clip.
            if "too long for context length" not in str(error):
                raise error from None
            raise StageError("too-long", str(error)[:300]) from error
        tokens = _tensor(row)
        # A token is at least one byte: a shorter text fits.
        if len(text.encode("utf-8", "surrogatepass")) + 2 > len(tokens):
            note = _truncation_note(contract, text, tokens)
            if note:
                self.counts.noted[note] += 1
        sample[names[0]] = tokens
        return sample


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, bytes):
        raise StageError("not-text", f"a {type(value).__name__}, no caption")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise StageError("not-text", f"it is not UTF-8: {error}") from error


def _tensor(tokens: object) -> "torch.Tensor":
    import numpy as np
    import torch

    if isinstance(tokens, np.ndarray):
        return torch.from_numpy(tokens)
    return cast("torch.Tensor", tokens)


def _truncation_note(contract: TokenizerContract, text: str, tokens: "torch.Tensor") -> str:
    """Return the name of the note that a caption was truncated.

    It is "" if the tokens certainly hold the whole caption.
    """
    empty = _tensor(contract.call(""))
    # Not padded.
    if not len(empty):
        return "perhaps-truncated"
    padding = int(empty[-1])
    if int(tokens[-1]) == padding == int(tokens[-2]):
        return ""
    try:
        more = _tensor(contract.call(text, context_length=4 * len(tokens)))
    except TypeError:
        return "perhaps-truncated"
    beyond = more[len(tokens) :]
    # It ignores the option.
    if not len(beyond):
        return "perhaps-truncated"
    is_cut = bool((beyond != beyond[-1]).any()) or int(more[-1]) != padding
    return "truncated" if is_cut else ""
