"""The second pass: one output, whole or not at all."""

from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from wdsflow.shards.samples.copy_ranges import tar_of_ranges

from .open_inputs import OpenInputs
from .output_pieces import PlannedOutput, output_pieces, repeats_before
from .reshard_report import OutputReport
from .sample_rows import inputs_of

_CODE = 1  # version of the result


@dataclass(frozen=True, eq=False)
class OutputJob(PlannedOutput):
    """One output to write."""

    target: Path


def made_from(job: OutputJob, known: OpenInputs) -> dict[str, Any]:
    """Return what decides the bytes of an output."""
    from xxhash import xxh3_128

    digest, used = xxh3_128(), set[int]()
    for rows in job.rows.pieces(*job.bounds):
        digest.update(rows.tobytes())
        used.update(np.unique(inputs_of(rows)).tolist())
    digest.update(str(repeats_before(job)).encode())
    inputs = xxh3_128()
    for number in sorted(used):
        inputs.update(repr((number, known.url(number), sorted(known.identity(number).items()))).encode())
    return {"code": _CODE, "samples": digest.hexdigest(), "inputs": inputs.hexdigest()}


def write_output(job: OutputJob, stop: Event) -> OutputReport:
    """Write an output, whole or not at all.

    Raises SourceError or ShortSourceError if an input changed, OSError if the output cannot be written.
    """
    report, inputs = OutputReport(), job.inputs
    with tar_of_ranges(job.target) as tar:
        for piece in output_pieces(job, report):
            if stop.is_set():
                raise InterruptedError("given up")
            if isinstance(piece, bytes):
                tar.add(piece)
            else:
                tar.copy(inputs.get(piece.number), piece.start, piece.end)
    report.bytes, report.output = tar.size, str(job.target)
    return report
