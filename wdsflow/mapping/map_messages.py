"""What is said between the process that asks and its workers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple


class MappingError(RuntimeError):
    """A row could not be mapped. ``index`` counts rows from 0; ``detail`` has the worker's traceback, if there is one."""

    def __init__(self, text: str, index: int = -1, detail: str = "") -> None:
        super().__init__(text)
        self.index, self.detail = index, detail

    def __str__(self) -> str:
        return f"{self.args[0]}\n\n{self.detail}" if self.detail else str(self.args[0])


class UnreadableError(ValueError):
    """A row cannot be unpickled in a worker; that is no fault of its own."""


@dataclass(frozen=True)
class MapSetup:
    """The first message to a worker: where modules lie, and what it does, pickled."""

    path: Sequence[str]
    work: bytes


@dataclass(frozen=True)
class RowBatch:
    """Rows ``start`` to ``stop``. ``rows`` are theirs, each pickled, where a worker cannot fetch them itself.

    ``alone``: no other worker may run next to it, as the rows need the memory of all.
    """

    start: int
    stop: int
    rows: tuple[bytes, ...] = ()
    alone: bool = False

    def __len__(self) -> int:
        return self.stop - self.start

    def halves(self) -> "tuple[RowBatch, RowBatch]":
        """Return two batches that are half as long."""
        middle = len(self) // 2
        return (
            RowBatch(self.start, self.start + middle, self.rows[:middle]),
            RowBatch(self.start + middle, self.stop, self.rows[middle:]),
        )


class MapOrder(NamedTuple):
    """What a worker is asked to do: a batch, the file for its results, the bytes by which it may grow."""

    batch: RowBatch
    path: str
    room: int


class Measure(NamedTuple):
    """What a batch took: resident bytes when it began, at most, and when it was done; bytes of the results themselves."""

    before: int
    peak: int
    after: int
    results: int

    @property
    def grown(self) -> int:
        """The bytes that the batch took next to what the worker keeps."""
        return max(self.peak - min(self.before, self.after), self.results, 0)


@dataclass(frozen=True)
class Done:
    """A batch is mapped; ``answer`` says where the results lie."""

    answer: Any
    measure: Measure


@dataclass(frozen=True)
class Failed:
    """A batch is not mapped. ``kind``: what failed; memory, the disk, or something that is likely to fail again."""

    kind: Literal["memory", "full", "error", "died", "refused"]
    text: str
    detail: str = ""
    measure: Measure | None = None


@dataclass
class FailedRow:
    """A row that could not be mapped. ``row`` is the row itself where it came from an iterable, None for a Dataset."""

    index: int
    error: str
    row: Any = field(default=None, repr=False)


def packed(value: object, what: str) -> bytes:
    """Pickle a value for a worker. Raises TypeError, with ``what`` it is, if that is impossible."""
    import dill

    try:
        return bytes(
            dill.dumps(value, recurse=True)
        )  # functions of __main__ and lambdas as they are, as datasets.map does
    except Exception as error:
        raise TypeError(
            f"{what} cannot be sent to a worker process ({type(error).__name__}: {error}). Open files, locks and models on"
            " a device belong inside of the function"
        ) from error
