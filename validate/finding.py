"""One thing that is wrong, where, for whom, and what fixes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Repair:
    """A way to fix a finding. ``command`` can be pasted into a shell; ``safe`` means that no data is lost by it.

    A repair of shards, or another flag of a training command, has its command when the whole report is known: see
    ``invocation.settle``.
    """

    command: str
    safe: bool = True
    note: str = ""
    shards: tuple[str, ...] = ()  # that ``wdsflow repair`` is to read
    options: tuple[str, ...] = ()  # for it
    flags: tuple[str, ...] = ()  # of a training command, with its value


@dataclass(frozen=True, slots=True)
class Advice:
    """A change that would let more samples through, and how to make it."""

    regains: int  # samples that would reach a batch and do not now
    does: str  # what changes, in one line, escaped already
    reader: str = ""  # the reader for which it was computed
    title: str = ""  # its name for people
    usable: int | None = None  # samples that would reach a batch; None: not known, or not what changes
    now: int = 0
    samples: int = 0
    exact: bool = True  # False: at most so many, because the level did not look at all contents
    command: str = ""  # what to type, or lines of code; empty where there is nothing to type
    language: Literal["shell", "python"] = "shell"  # of the command
    safe: bool = True  # no data is changed or lost by it
    options: tuple[str, ...] | None = None  # of ``wdsflow repair`` over all shards, which is the command then
    flags: tuple[str, ...] = ()  # of the training command, which is judged again by the command

    @property
    def text(self) -> str:
        """What changes and what that brings, in one line."""
        return self.does if self.usable is None else f"{self.does}: {promised([self])}"


def promises(advice: Sequence[Advice]) -> str:
    """Say what advice brings each reader, for readers who get the same by it together; "" where nothing is known."""
    brings: dict[tuple[int, int, bool], list[Advice]] = {}
    for each in advice:
        if each.usable is not None:
            brings.setdefault((each.usable, each.samples, each.exact), []).append(each)
    return "; ".join(promised(alike) for alike in brings.values())


def promised(advice: Sequence[Advice]) -> str:
    """Say what advice brings, for readers who get the same number of samples by it."""
    first = advice[0]
    readers = [f"{each.title} (now {each.now:,})" for each in advice]
    *others, last = readers
    listed = f"{', '.join(others)} and {last}" if others else last
    most = "" if first.exact else "up to "
    return f"{most}{first.usable:,} of {first.samples:,} samples would reach a batch in {listed}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about the data that hurts some reader. Reported, never raised."""

    code: str
    severity: Severity
    message: str  # place, count, consequence: one line, plain text, escaped already
    shard: str | None = None
    key: str | None = None
    offset: int | None = None
    count: int = 1
    rate: float | None = None  # count / samples where that makes sense
    readers: tuple[str, ...] = ()
    repair: Repair | None = None
