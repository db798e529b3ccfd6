"""Contents that were not decoded, or not wholly: what if they do not decode?

A scan leaves some contents undecoded. If a verdict would be the same either way, they do not
matter; otherwise the evidence is judged a second time, as if they were bad.
"""

from collections.abc import Container
from dataclasses import replace

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.scan.shapes import Part, Run, Runs, Shape, ShapeCount
from wdsflow.scan.statuses import BAD


def depends_on(reader: Reader, evidence: Evidence, statuses: Container[str]) -> bool:
    """Return whether the reader would miss contents of these statuses if they did not decode."""
    shapes: set[Shape] = set()
    for shard in evidence.shards:
        shapes |= reader.runs(shard).shapes()
    for shape in shapes:
        without = _shape_without(shape, statuses)
        if reader.fates(shape) != reader.fates(without):
            return True
    return False


def without_contents(shard: ShardEvidence, statuses: Container[str]) -> ShardEvidence:
    """Return a shard as it is if no contents of these statuses decode."""
    by_arrow = shard.by_arrow
    if by_arrow is not None:
        by_arrow = without_contents(by_arrow, statuses)
    return replace(
        shard,
        runs=_runs_without(shard.runs, statuses) or Runs(),
        visible_runs=_runs_without(shard.visible_runs, statuses),
        all_runs=_runs_without(shard.all_runs, statuses),
        by_arrow=by_arrow,
    )


def _runs_without(runs: Runs | None, statuses: Container[str]) -> Runs | None:
    """Return runs in which no contents of these statuses decode; None stays None."""
    if runs is None or runs.head is None:
        return runs
    head = _run_without(runs.head, statuses)
    inner: list[ShapeCount] = []
    for item in runs.inner:
        shape = _shape_without(item.shape, statuses)
        inner.append(replace(item, shape=shape))
    tail = _run_without(runs.tail, statuses)
    return Runs(head, tuple(inner), tail)


def _run_without(run: Run | None, statuses: Container[str]) -> Run | None:
    if run is None:
        return None
    shape = _shape_without(run.shape, statuses)
    return run._replace(shape=shape)


def _shape_without(shape: Shape, statuses: Container[str]) -> Shape:
    parts: list[Part] = []
    for part in shape:
        is_bad = part.status in statuses
        parts.append(part._replace(status=BAD) if is_bad else part)
    return tuple(parts)
