"""The messages between a run and its worker processes: batches of rows, and answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

# Why a batch is not mapped: too little memory, a full disk,
# an error of ``fn``, a dead process, a bad setup.
FailureKind: TypeAlias = Literal["memory", "full", "error", "died", "refused"]


class MapSetup(NamedTuple):
    """The first message to a worker: its import path, and its ``MapWork``, pickled."""

    path: Sequence[str]
    work: bytes


@dataclass(frozen=True)
class RowBatch:
    """Rows ``start`` to ``stop``. ``rows``: each pickled, if a worker cannot fetch them itself.

    ``alone``: no other worker may run meanwhile, because the rows need all memory.
    """

    start: int
    stop: int
    rows: tuple[bytes, ...] = ()
    alone: bool = False

    def __len__(self) -> int:
        return self.stop - self.start

    def halves(self) -> "tuple[RowBatch, RowBatch]":
        """Return two batches of half the length."""
        count = len(self) // 2
        middle = self.start + count
        first = RowBatch(self.start, middle, self.rows[:count])
        second = RowBatch(middle, self.stop, self.rows[count:])
        return first, second


class MapOrder(NamedTuple):
    """A batch, the file for its results, and the bytes by which the worker may grow."""

    batch: RowBatch
    path: str
    room: int


class Measure(NamedTuple):
    """Memory of a batch, in bytes.

    Resident bytes before, at the peak and after; bytes of the results themselves.
    """

    before: int
    peak: int
    after: int
    results: int

    @property
    def growth(self) -> int:
        """Bytes that the batch took, without those that the worker keeps."""
        return max(self.peak - min(self.before, self.after), self.results, 0)


@dataclass(frozen=True)
class Done:
    """A batch is mapped; ``answer``: the number of result rows, None if ``fn`` changes nothing."""

    answer: int | None
    measure: Measure


@dataclass(frozen=True)
class Failed:
    """A batch is not mapped. ``measure``: None if the process has ended."""

    kind: FailureKind
    text: str
    detail: str = ""
    measure: Measure | None = None


def pickle_for_worker(value: object, name: str) -> bytes:
    """Pickle a value for a worker; ``name`` is for the error message.

    Raises TypeError if it cannot be pickled.
    """
    import dill

    try:
        # Functions of __main__ and lambdas by value, as datasets.map.
        return bytes(dill.dumps(value, recurse=True))
    except Exception as error:
        raise TypeError(
            f"{name} cannot be sent to a worker process ({type(error).__name__}: {error}). Open files, locks and models on"
            " a device belong inside of the function"
        ) from error
