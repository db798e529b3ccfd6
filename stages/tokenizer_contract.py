"""A tokenizer that is checked on real captions before its tokens are used."""

from collections.abc import Callable, Sequence
from traceback import extract_tb
from typing import Literal, NamedTuple

from .tokenizer_rows import rows_of, same_row
from .word_tokens import by_words

# How a tokenizer is called: with all captions, with lists of one, with single captions.
Form = Literal["many", "list", "text"]

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
    """A tokenizer returned an unusable result.

    The message describes the result, and the result that is required.
    """

    def __init__(self, fault: str) -> None:
        super().__init__(f"the tokenizer cannot be used: {fault}.\n{_CONTRACT}")


class CaptionFailure(Exception):
    """A tokenizer raised for one caption, or for several at once; its exception is the cause."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__(texts)
        self.texts = texts


class _Fault(NamedTuple):
    """A call of a tokenizer that raised, or returned something unusable."""

    text: str
    # What it raised.
    error: BaseException | None = None

    def exception(self, texts: Sequence[str]) -> Exception:
        """Return the exception for captions; that of the tokenizer is its cause."""
        if self.error is None:
            return TokenizerError(self.text)
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
        # OpenCLIP's with this option are random, and take single captions.
        self._reduces = getattr(tokenizer, "reduction_fn", None) is not None
        self._form: Form | None = "text" if self._reduces else None
        # The captions on which it was checked.
        self._checked: tuple[str, ...] = ()
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
        to_check = tuple(dict.fromkeys((*self._checked, *texts)))[:_TRIED]
        is_random = self._form == "list" or self._reduces
        if len(to_check) > len(self._checked) and not is_random:
            self._form = self._check(to_check)
            self._checked = to_check
        rows = self._rows(texts)
        if rows:
            self._first = self._first or (texts[0], rows[0])
            first_text, first_row = self._first
            _check_lengths((first_text, *texts), (first_row, *rows))
        return rows

    def call(self, text: str, **options: object) -> object:
        """Return the row of one caption, with options for the tokenizer. Raises its errors."""
        return rows_of(self.tokenizer(self._argument(text), **options))[0]

    def _argument(self, text: str) -> str | list[str]:
        """Return what the tokenizer takes for a single caption."""
        return text if self._form == "text" else [text]

    def _rows(self, texts: Sequence[str]) -> list[object]:
        if self._form != "many":
            return [self._row(text) for text in texts]
        rows = self._attempt(list(texts), len(texts))
        if not isinstance(rows, _Fault):
            return rows
        for text in texts:
            # Raises for the caption that causes the error.
            self._row(text)
        raise rows.exception(texts)

    def _row(self, text: str) -> object:
        rows = self._attempt(self._argument(text), 1)
        if isinstance(rows, _Fault):
            raise rows.exception([text])
        return rows[0]

    def _check(self, texts: Sequence[str]) -> Form:
        """Return how to call the tokenizer.

        Lists of two captions are tried: a tokenizer that takes a string may accept ``[text]``.
        """
        form: Form = "many"
        attempts = [self._attempt([text, text], 2) for text in texts]
        fault = _common_fault(attempts)
        if fault is not None:
            form = "text"
            attempts = self._attempt_single(texts, fault)
        alone = []
        is_random = False
        for text, rows in zip(texts, attempts, strict=True):
            if isinstance(rows, _Fault):
                raise rows.exception([text])
            alone.append(rows[0])
            if form == "many" and not same_row(*rows):
                is_random = True
        if is_random:
            return "list"
        _check_lengths(texts, alone)
        return form if form == "text" else self._check_together(texts, alone)

    def _attempt_single(
        self, texts: Sequence[str], list_fault: _Fault
    ) -> list[list[object] | _Fault]:
        """Return the result for each caption alone.

        Raises if all these calls fail, as those with lists did.
        """
        attempts = [self._attempt(text, 1) for text in texts]
        fault = _common_fault(attempts)
        if fault is None:
            return attempts
        if fault.error is not None and len(texts) == 1:
            raise fault.exception(texts)
        raise TokenizerError(f"{list_fault.text}; {fault.text}") from (
            fault.error or list_fault.error
        )

    def _check_together(
        self, texts: Sequence[str], alone: Sequence[object]
    ) -> Literal["many", "list"]:
        """Return "many" if captions get the same rows together as alone.

        Returns "list" if the tokenizer is random. Raises TokenizerError if rows differ otherwise.
        """
        together = self._attempt(list(texts), len(texts))
        if isinstance(together, _Fault):
            raise together.exception(texts)
        for number, text in enumerate(texts):
            if same_row(together[number], alone[number]):
                continue
            if self._is_random(texts, number, together[number], alone[number]):
                return "list"
            raise TokenizerError(
                f"{_quoted(text)} gets other tokens in a list of {len(texts)} captions than alone"
            )
        return "many"

    def _is_random(
        self, texts: Sequence[str], number: int, together: object, alone: object
    ) -> bool:
        """Return whether the same calls give other rows when repeated.

        The calls are with all captions, and with one caption alone.
        """
        calls = ((list(texts), together, number), ([texts[number]] * 2, alone, 0))
        # A tokenizer may be random for a few captions only.
        for _ in range(_REPEATS):
            for argument, row, position in calls:
                again = self._attempt(argument, len(argument))
                if not isinstance(again, _Fault) and not same_row(again[position], row):
                    return True
        return False

    def _attempt(self, argument: str | list[str], count: int) -> list[object] | _Fault:
        """Return the expected number of rows, or the fault."""
        if isinstance(argument, list):
            call = f"for a list of {len(argument)} captions"
        else:
            call = f"for the caption {_quoted(argument)}"
        try:
            result = self._tokenize(argument)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
            raised = f"{type(error).__name__}: {error}{_line_of(error)}"
            return _Fault(f"{call} it raised {raised}", error)
        try:
            rows = rows_of(result)
        except TypeError as error:
            return _Fault(f"{call} it returned {error}")
        if len(rows) != count:
            plural = "" if len(rows) == 1 else "s"
            return _Fault(f"{call} it returned {len(rows)} row{plural}")
        return rows


def _common_fault(attempts: Sequence[list[object] | _Fault]) -> _Fault | None:
    """Return the first fault if all attempts failed."""
    faults = [attempt for attempt in attempts if isinstance(attempt, _Fault)]
    return faults[0] if len(faults) == len(attempts) else None


def _line_of(error: BaseException) -> str:
    """Return the line of the tokenizer that the error passed through; "" for errors from C code."""
    # The first is the call in this module.
    frames = extract_tb(error.__traceback__)[1:2]
    return "".join(f", in {frame.name} ({frame.filename}, line {frame.lineno})" for frame in frames)


def _check_lengths(texts: Sequence[str], rows: Sequence[object]) -> None:
    """Raise TokenizerError if rows of numbers cannot be stacked."""
    shapes = [getattr(row, "shape", None) for row in rows]
    for text, shape in zip(texts, shapes, strict=True):
        if shape != shapes[0]:
            one = list(shapes[0] or ())
            other = list(shape or ())
            raise TokenizerError(
                f"its rows have different lengths: {one} for {_quoted(texts[0])}, {other} for {_quoted(text)}"
            )


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")
