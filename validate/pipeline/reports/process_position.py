"""Where a process of a run is: its last step and its counts, in shared memory that outlives it."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

from wdsflow.engines.mark import SharedValues

from ...tracing.stage_trace import Kind
from ..meters.reported_stage import ReportedStage

# The process that runs the pipeline.
MAIN: Literal["main"] = "main"
# A process that reads the dataset of a DataLoader.
DATASET: Literal["dataset"] = "dataset"
Role = Literal["main", "dataset"]

_SUFFIX = ".position"
# Of a key or a url, in UTF-8.
_TEXT_BYTES = 1000
# Key, shard, their lengths, the stage, the number of the step, its time.
_STEP_FORMAT = f"<{_TEXT_BYTES}s{_TEXT_BYTES}sHHqqd"
# Where the counts begin, after the last step, in bytes.
_COUNTS_OFFSET = 2048
# Of each stage, as numbers of eight bytes: out, rows, errors, unclear, and its kind in _KINDS.
_COUNTS_OF_STAGE = 5
_KINDS: list[Kind] = ["", "shard", "member", "sample", "batch"]


class ProcessStep(NamedTuple):
    """The last step of a process."""

    role: Role
    pid: int
    # Its index in the process; -1: none yet.
    stage: int
    # Of the sample that the stage got.
    key: str
    shard: str
    # Of steps until then.
    number: int
    # By time.monotonic(), in seconds.
    time: float


class ProcessPosition(SharedValues):
    """The last step and the counts of a process.

    They are written immediately, and can be read after the process has died.
    """

    def __init__(self, path: Path) -> None:
        self._number = 0
        self._file = path.open("r+b" if path.exists() else "w+b")
        super().__init__(_STEP_FORMAT, self._file.fileno())
        self._counts = memoryview(self._memory)[_COUNTS_OFFSET:].cast("q")

    def step(self, stage: int, key: str, shard: str) -> None:
        """Note that the code of a stage runs, at a sample.

        Args:
            stage: its index in the process; -1 if it is none.
            key: of the sample that the stage got; "" if unknown.
            shard: of that sample.
        """
        self._number += 1
        key_bytes = key.encode("utf-8", "replace")[:_TEXT_BYTES]
        shard_bytes = shard.encode("utf-8", "replace")[:_TEXT_BYTES]
        now = time.monotonic()
        self.write(
            key_bytes, shard_bytes, len(key_bytes), len(shard_bytes), stage, self._number, now
        )

    def last_step(self, role: Role, pid: int) -> ProcessStep:
        """Return the last step that the process noted."""
        key_bytes, shard_bytes, key_length, shard_length, stage, number, seconds = self.read()
        key = key_bytes[:key_length].decode("utf-8", "replace")
        shard = shard_bytes[:shard_length].decode("utf-8", "replace")
        return ProcessStep(role, pid, stage, key, shard, number, seconds)

    def write_counts(self, index: int, stage: ReportedStage) -> None:
        """Note the counts of a stage.

        There is room for 51 stages. The counts of further stages are only in reports.
        """
        start = index * _COUNTS_OF_STAGE
        if start + _COUNTS_OF_STAGE > len(self._counts):
            return
        counts = (stage.out, stage.rows, stage.errors, stage.unclear, _KINDS.index(stage.kind))
        for offset, count in enumerate(counts):
            self._counts[start + offset] = count

    def read_counts(self, index: int, stage: ReportedStage) -> None:
        """Set the counts of a stage to those that the process noted last."""
        start = index * _COUNTS_OF_STAGE
        if start + _COUNTS_OF_STAGE > len(self._counts):
            return
        counts = self._counts[start : start + _COUNTS_OF_STAGE].tolist()
        stage.out, stage.rows, stage.errors, stage.unclear, kind = counts
        stage.kind = _KINDS[kind]

    def close(self) -> None:
        """Unmap and close the file."""
        self._counts.release()
        super().close()
        self._file.close()


def position_path(folder: Path, role: Role, pid: int) -> Path:
    """Return the file in which a process of a run notes its position."""
    return folder / f"{role}-{pid}{_SUFFIX}"


def read_steps(folder: Path) -> Iterator[ProcessStep]:
    """Yield the last step of each process of a run."""
    for path in folder.glob(f"*{_SUFFIX}"):
        role, _, pid = path.stem.partition("-")
        with closing(ProcessPosition(path)) as position:
            yield position.last_step(MAIN if role == MAIN else DATASET, int(pid))
