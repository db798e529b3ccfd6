"""Tokenize captions with any tokenizer, which is checked on real captions before its tokens are used."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from traceback import extract_tb
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from wdsflow.shards.shard_names import alternatives
from wdsflow.text.install import install_extras

from .base import Sample, SampleStage, StageError
from .fields import listed, present
from .word_tokens import by_words

if TYPE_CHECKING:
    import torch

# Different captions on which a tokenizer is checked.
_TRIED = 8
# Repeats of a call, to tell a random tokenizer from a faulty one.
_REPEATS = 10
_CONTRACT = (
    "A tokenizer takes a list of n captions and returns n rows of one length, such as a tensor (n, 77), and each caption "
    "gets the same row alone and with others. Or it takes one caption and returns one row, which OpenCLIP reads as "
    "tokenizer(text)[0]. A dict is read at input_ids. For a tokenizer of transformers: "
    'functools.partial(tokenizer, padding="max_length", truncation=True, max_length=77, return_tensors="pt")'
)


class TokenizerError(ValueError):
    """A tokenizer returns an unusable result; the message describes it, and the result that is required."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the tokenizer cannot be used: {what}.\n{_CONTRACT}")


class CaptionFailure(Exception):
    """A tokenizer raised for one caption, or for several at once; its exception is the cause."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__(texts)
        self.texts = texts


class _Fault(NamedTuple):
    what: str
    error: BaseException | None = None

    def raised(self, texts: Sequence[str]) -> Exception:
        """Return the exception for captions; the tokenizer's own is its cause."""
        if self.error is None:
            return TokenizerError(self.what)
        failure = CaptionFailure(texts)
        failure.__cause__ = self.error
        return failure


class TokenizerContract:
    """Calls a tokenizer with lists, or with single captions if it takes only those. Can be pickled.

    The first captions, at most eight different ones, decide: each is tokenized alone, and all of
    them together. A random tokenizer, such as OpenCLIP's with a ``reduction_fn``, is called for
    each caption separately.
    """

    def __init__(self, tokenizer: Callable[..., object]) -> None:
        self.tokenizer = tokenizer
        self._tokenize = by_words(tokenizer) or tokenizer
        self._form: Literal["many", "list", "text"] | None = None
        if getattr(tokenizer, "reduction_fn", None) is not None:
            self._form = "text"
        self._tried: tuple[str, ...] = ()
        # A caption and its row: all others have the same length.
        self._first: tuple[str, object] | None = None

    def __reduce__(self) -> tuple[type["TokenizerContract"], tuple[Callable[..., object]]]:
        return TokenizerContract, (self.tokenizer,)

    def __call__(self, texts: Sequence[str]) -> list[object]:
        """Return a row for each caption: a tensor or an array, which lists of numbers become.

        Raises:
            TokenizerError: the tokenizer breaks its contract.
            CaptionFailure: it raised for one of the captions.
        """
        more = tuple(dict.fromkeys((*self._tried, *texts)))[:_TRIED]
        draws = self._form == "list" or getattr(self.tokenizer, "reduction_fn", None) is not None
        if len(more) > len(self._tried) and not draws:
            self._form = self._check(more)
            self._tried = more
        rows = (
            self._attempt(list(texts), len(texts))
            if self._form == "many"
            else [self._one(text) for text in texts]
        )
        if isinstance(rows, _Fault):
            for text in texts:
                # Raises for the caption that causes the error.
                self._one(text)
            raise rows.raised(texts)
        if rows:
            self._first = self._first or (texts[0], rows[0])
            _check_lengths((self._first[0], *texts), (self._first[1], *rows))
        return rows

    def call(self, text: str, **options: object) -> object:
        """Return the row of one caption, with options for the tokenizer. Raises its errors."""
        return _rows(self.tokenizer(text if self._form == "text" else [text], **options))[0]

    def _one(self, text: str) -> object:
        rows = self._attempt(text if self._form == "text" else [text], 1)
        if isinstance(rows, _Fault):
            raise rows.raised([text])
        return rows[0]

    def _check(self, texts: Sequence[str]) -> Literal["many", "list", "text"]:
        """Return how to call it. Lists of two captions are tried: one that takes a string may accept ``[text]``."""
        form: Literal["many", "list", "text"] = "many"
        found = [self._attempt([text, text], 2) for text in texts]
        if all(isinstance(rows, _Fault) for rows in found):
            form, in_lists = "text", found[0]
            found = [self._attempt(text, 1) for text in texts]
            if all(isinstance(rows, _Fault) for rows in found):
                assert isinstance(in_lists, _Fault)
                assert isinstance(found[0], _Fault)
                if found[0].error is not None and len(texts) == 1:
                    raise found[0].raised(texts)
                raise TokenizerError(f"{in_lists.what}; {found[0].what}") from (
                    found[0].error or in_lists.error
                )
        alone = []
        for text, rows in zip(texts, found, strict=True):
            if isinstance(rows, _Fault):
                raise rows.raised([text])
            alone.append(rows[0])
        if form == "many" and any(not _same(*rows) for rows in found):
            # Random.
            return "list"
        _check_lengths(texts, alone)
        return form if form == "text" else self._together(texts, alone)

    def _together(self, texts: Sequence[str], alone: Sequence[object]) -> Literal["many", "list"]:
        together = self._attempt(list(texts), len(texts))
        if isinstance(together, _Fault):
            raise together.raised(texts)
        other = next(
            (each for each, row in enumerate(together) if not _same(row, alone[each])), None
        )
        if other is None:
            return "many"
        # A tokenizer that is rarely random gives other tokens for the same call.
        for _ in range(_REPEATS):
            for argument, row, place in (
                (list(texts), together[other], other),
                ([texts[other]] * 2, alone[other], 0),
            ):
                again = self._attempt(argument, len(argument))
                if not isinstance(again, _Fault) and not _same(again[place], row):
                    # Random.
                    return "list"
        raise TokenizerError(
            f"{_quoted(texts[other])} gets other tokens in a list of {len(texts)} captions than alone"
        )

    def _attempt(self, argument: str | list[str], count: int) -> list[object] | _Fault:
        """Return the expected number of rows, or the fault."""
        many = (
            f"a list of {len(argument)} captions"
            if isinstance(argument, list)
            else f"the caption {_quoted(argument)}"
        )
        try:
            result = self._tokenize(argument)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
            return _Fault(
                f"for {many} it raised {type(error).__name__}: {error}{_place(error)}", error
            )
        try:
            rows = _rows(result)
        except TypeError as error:
            return _Fault(f"for {many} it returned {error}")
        if len(rows) != count:
            return _Fault(f"for {many} it returned {len(rows)} row{'' if len(rows) == 1 else 's'}")
        return rows


def _place(error: BaseException) -> str:
    """Return the line of the tokenizer that the error passed through; "" for errors from C code."""
    # The first is the call in this module.
    frames = extract_tb(error.__traceback__)[1:2]
    return "".join(f", in {frame.name} ({frame.filename}, line {frame.lineno})" for frame in frames)


def _rows(result: object) -> list[object]:
    """Return the rows of a tokenizer's result. Raises TypeError, with its description, if it has none."""
    import numpy as np
    import torch

    if isinstance(result, Mapping):
        if "input_ids" not in result:
            raise TypeError(f"a dict without input_ids (its keys: {', '.join(map(str, result))})")
        result = result["input_ids"]
    if isinstance(result, torch.Tensor) and result.dim():
        try:
            # Ten times as fast as rows of torch.
            return list(result.numpy())
        except (RuntimeError, TypeError):
            # On another device, with gradients, or bfloat16.
            return list(result)
    if isinstance(result, np.ndarray) and result.ndim:
        return list(result)
    if not isinstance(result, Sequence) or isinstance(result, (str, bytes)):
        raise TypeError(f"a {type(result).__name__}, which has no rows")
    return [_row(row) for row in result]


def _row(row: object) -> object:
    """Return a list of numbers as an array, integers as int64; other rows unchanged."""
    import numpy as np

    if not isinstance(row, Sequence) or isinstance(row, (str, bytes)):
        return row
    try:
        found = np.asarray(row) if len(row) else np.empty(0, np.int64)
    except ValueError as error:
        # Nested lists of different lengths.
        raise TypeError(f"a row of lists that have different lengths: {error}") from error
    return found if found.dtype.kind in "biuf" else row


def _check_lengths(texts: Sequence[str], rows: Sequence[object]) -> None:
    """Raise TokenizerError if rows of numbers cannot be stacked."""
    shapes = [getattr(row, "shape", None) for row in rows]
    for text, shape in zip(texts, shapes, strict=True):
        if shape != shapes[0]:
            one, other = list(shapes[0] or ()), list(shape or ())
            raise TokenizerError(
                f"its rows have different lengths: {one} for {_quoted(texts[0])}, {other} for {_quoted(text)}"
            )


def _same(one: object, other: object) -> bool:
    import numpy as np
    import torch

    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    try:
        return bool(one == other)
    except (RuntimeError, TypeError, ValueError):
        return False


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


Tokenizer = Callable[..., object]


@dataclass(frozen=True)
class Tokenize(SampleStage, name="tokenize", read_by="field", written_by="field"):
    """Replace captions by tokens: a LongTensor of ``context length``, equal to ``tokenizer(text)[0]``.

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
        names = present(sample, self.field.split(";"))
        if not names:
            raise StageError(
                "no-text", f"it has none of {self.field!r}; its fields: {listed(sample)}"
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
        if len(text.encode("utf-8", "surrogatepass")) + 2 > len(tokens) and (
            note := _cut(contract, text, tokens)
        ):
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


def _tensor(tokens: object) -> "torch.Tensor":
    import numpy as np
    import torch

    return (
        torch.from_numpy(tokens) if isinstance(tokens, np.ndarray) else cast("torch.Tensor", tokens)
    )


def _cut(contract: TokenizerContract, text: str, tokens: "torch.Tensor") -> str:
    """Return the name of the note that a caption was cut, "" if the tokens certainly hold all of it."""
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
    return "truncated" if bool((beyond != beyond[-1]).any()) or int(more[-1]) != padding else ""
