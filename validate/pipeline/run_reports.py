"""What the processes of a run of the user's pipeline report, and the request that they get.

Each process writes into the folder of the run: its position, in shared memory, which outlives it; its counts, several
times a second. What samples entered and came out is in lists, see ``run_lists``.
"""

import math
import os
import pickle
import signal
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from wdsflow.engines.peer import Note

from ..tracing.meter import InputEnd, Kind, SeenStage
from .pass_limit import PassLimit

# "passes": the pipeline reads the shards again and again; "empty-passes": the same, without output.
Limit = InputEnd | Literal["passes", "empty-passes"]
_KEY_BYTES = 1000
# Bytes: after the last step.
_COUNTS_AT = 2048
_COUNTS = ("out", "rows", "errors", "unclear", "kind")
_KINDS: list[Kind] = ["", "shard", "member", "sample", "batch"]
MAIN, DATASET = "main", "dataset"
# Instead of an exception: the stage gave None or an empty container for a sample.
BLANK = "None"
# Instead of an exception: the stage put the sample into the element of another.
COMBINED = "combined"
# At which a process writes its stacks; no library uses it.
STACKS_SIGNAL = getattr(signal, "SIGRTMIN", signal.SIGUSR1) + 7


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run over some shards."""

    urls: tuple[str, ...]
    # For the reports.
    folder: str
    # Then the input ends.
    samples: float = math.inf
    # Then the input ends.
    seconds: float = math.inf
    # Samples of the shards; None: they may be read again and again.
    held: int | None = None
    # Of the samples in the shards; empty if there are too many.
    keys: frozenset[str] = frozenset()
    # Name of a function -> the only line of the user that calls it.
    calls: Mapping[str, str] = field(default_factory=dict)
    pass_limit: PassLimit = field(default_factory=PassLimit)


@dataclass(slots=True)
class LostSamples:
    """Samples that one stage left out in one way, with the first of them."""

    # The exception, or BLANK; "" if the code of the user left them out without one.
    error: str
    # "train.py:31".
    line: str
    key: str
    shard: str
    count: int = 0
    # A missing requirement of this machine, which caused the exception.
    machine: str = ""


@dataclass
class ReportedStage(SeenStage):
    """A stage of a run."""

    # By the type of the exception.
    losses: dict[str, LostSamples] = field(default_factory=dict)
    # Where the code of the user begins.
    line: str = ""
    # Batches of which the number of samples is unknown.
    unclear: int = 0
    is_loader: bool = False
    # Elements with the key of a sample that it had yielded before.
    again: int = 0
    # Elements with the key of a sample that it had got.
    keyed: int = 0
    # Its own code may give one sample twice and leave out another, see ``followed_stages``.
    is_opaque: bool = False
    # Of the user, for each element.
    calls_function: bool = False

    @property
    def blanks(self) -> int:
        """Elements without a sample that it gave: None, or an empty container."""
        return self.losses[BLANK].count if BLANK in self.losses else 0

    @property
    def combined(self) -> int:
        """Samples that it put into the elements of others."""
        return self.losses[COMBINED].count if COMBINED in self.losses else 0

    @property
    def lost(self) -> int:
        """Samples that were consumed and not yielded, also if all batches are empty."""
        if self.kind == "batch" and self.taken_kind == "sample" and self.batch and not self.unclear:
            return max(0, self.taken - self.rows)
        if self.kind == self.taken_kind == "sample":
            return max(0, self.taken - (self.out - self.again))
        return super().lost

    @property
    def is_followed(self) -> bool:
        """Whether it is visible which of its input it yields: by keys, or because its code is known."""
        if self.kind in ("", "shard", "member"):
            return True
        makes_batches = "batch" in (self.kind, self.taken_kind) and self.calls_function
        if not self.is_opaque and not makes_batches:
            return True
        return self.kind == "sample" and self.keyed == self.out

    @property
    def multiplies(self) -> bool:
        """Whether it made several elements of one sample."""
        return self.kind == self.taken_kind == "sample" and (self.out > self.taken or self.again > 0)


@dataclass(frozen=True, slots=True)
class Fault:
    """The exception that ended a run."""

    # From 0, in its process.
    stage: int
    error: str
    line: str
    key: str
    shard: str
    machine: str


@dataclass
class ProcessReport:
    """The counts of one process."""

    # MAIN, or DATASET: of a DataLoader, in its workers.
    place: str
    pid: int
    stages: list[ReportedStage]
    fault: Fault | None
    # Why its input ended, if that was no end of the shards.
    limit: Limit
    # How often its source began.
    passes: int
    # The stage that ended although its input had not; -1 if none.
    ended_first: int
    # With replacement.
    draws_shards: bool
    # As often as an epoch needs.
    repeats: bool
    # The object of the user says so.
    never_ends: bool
    # Elements that came out, in which no key of a sample is visible.
    without_key: int
    # Of these, elements that may hold several samples.
    perhaps_batches: int


class ProcessStep(NamedTuple):
    """The last step of a process."""

    place: str
    pid: int
    # From 0; -1: none yet.
    stage: int
    # Of the sample that the stage got.
    key: str
    shard: str
    # Of steps until then.
    number: int
    # By time.monotonic().
    time: float
    # Of each stage, see _COUNTS.
    counts: tuple[tuple[int, ...], ...]


class ProcessPosition(Note):
    """The last step and the counts of a process. They are written at once, and can be read after the process has died."""

    def __init__(self, path: Path) -> None:
        self._number = 0
        self._file = path.open("r+b" if path.exists() else "w+b")
        super().__init__(f"<{_KEY_BYTES}s{_KEY_BYTES}sHHqqd", self._file.fileno())
        self._counts = memoryview(self._memory)[_COUNTS_AT:].cast("q")

    def step(self, stage: int, key: str, shard: str) -> None:
        """Note that the code of a stage runs, at a sample."""
        self._number += 1
        key_bytes, shard_bytes = (text.encode("utf-8", "replace")[:_KEY_BYTES] for text in (key, shard))
        self.write(key_bytes, shard_bytes, len(key_bytes), len(shard_bytes), stage, self._number, time.monotonic())

    def count(self, index: int, stage: "ReportedStage") -> None:
        """Note the counts of a stage; there is room for 51."""
        start = index * len(_COUNTS)
        if start < len(self._counts):
            for offset, name in enumerate(_COUNTS):
                self._counts[start + offset] = _KINDS.index(stage.kind) if name == "kind" else getattr(stage, name)

    def counts(self) -> tuple[tuple[int, ...], ...]:
        """Return the counts of all stages."""
        size = len(_COUNTS)
        return tuple(tuple(self._counts[start : start + size]) for start in range(0, len(self._counts), size))

    def close(self) -> None:
        """Unmap and close the file."""
        self._counts.release()
        super().close()
        self._file.close()


def read_steps(folder: Path) -> list[ProcessStep]:
    """Return the last step of each process."""
    steps = []
    for path in folder.glob("*.position"):
        with closing(ProcessPosition(path)) as position:
            key, shard, key_size, shard_size, stage, number, seconds = position.read()
            counts = position.counts()
        place, _, pid = path.stem.partition("-")
        key, shard = key[:key_size].decode("utf-8", "replace"), shard[:shard_size].decode("utf-8", "replace")
        steps.append(ProcessStep(place, int(pid), stage, key, shard, number, seconds, counts))
    return steps


def write_report(folder: Path, report: ProcessReport) -> None:
    """Replace the counts of a process."""
    path = folder / f"{report.place}-{report.pid}.report"
    partial = path.with_suffix(".partial")
    partial.write_bytes(pickle.dumps(report))
    os.replace(partial, path)


def read_reports(folder: Path) -> list[ProcessReport]:
    """Return what each process reported, with its counts of the last moment; that of the pipeline itself first."""
    counts = {(step.place, step.pid): step.counts for step in read_steps(folder)}
    paths = sorted(folder.glob("*.report"), key=lambda path: (not path.name.startswith(MAIN), path.name))
    reports: list[ProcessReport] = [pickle.loads(path.read_bytes()) for path in paths]  # noqa: S301 - of our own processes
    for report in reports:
        for stage, latest in zip(report.stages, counts[report.place, report.pid], strict=False):
            stage.out, stage.rows, stage.errors, stage.unclear, kind = latest
            stage.kind = _KINDS[kind]
    return reports
