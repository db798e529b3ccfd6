"""The second pass: one output, whole or not at all."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.source.base import Piece

from .open_inputs import OpenInputs
from .output_pieces import PlannedOutput, output_pieces, repeats_before
from .reshard_report import OutputReport
from .sample_rows import inputs_of

_CODE = 1  # version of the result


@dataclass(frozen=True, eq=False, kw_only=True)
class OutputJob(PlannedOutput):
    """One output to write."""

    inputs: OpenInputs
    target: Path


def made_from(job: OutputJob, _: OutputReport | None = None) -> dict[str, Any]:
    """Return what decides the bytes of an output."""
    from xxhash import xxh3_128

    digest, used = xxh3_128(), set[int]()
    for rows in job.rows.pieces(*job.bounds):
        digest.update(rows.tobytes())
        used.update(np.unique(inputs_of(rows)).tolist())
    digest.update(str(repeats_before(job)).encode())
    inputs = xxh3_128()
    for number in sorted(used):
        inputs.update(repr((number, job.inputs.url(number), sorted(job.inputs.identity(number).items()))).encode())
    return {"code": _CODE, "samples": digest.hexdigest(), "inputs": inputs.hexdigest()}


def write_output(job: OutputJob, stop: Event) -> OutputReport:
    """Write an output, whole or not at all.

    Raises SourceError if an input changed, OSError if the output cannot be written.
    """
    report, source = OutputReport(), job.inputs.source()
    report.bytes = write_pieces(job.target, source, stopping(output_pieces(job, source, report), stop))
    report.output = str(job.target)
    return report


def stopping(pieces: Iterable[Piece], stop: Event) -> Iterator[Piece]:
    """Yield pieces until another thread has failed. Raises InterruptedError then."""
    for piece in pieces:
        if stop.is_set():
            raise InterruptedError("given up")
        yield piece
