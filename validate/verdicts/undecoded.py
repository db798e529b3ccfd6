"""Contents that were not decoded, or not wholly: what if they do not decode?"""

from collections.abc import Container
from dataclasses import replace

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.scan.shapes import Run, Runs, Shape
from wdsflow.scan.statuses import BAD


def depends_on(reader: Reader, evidence: Evidence, statuses: Container[str]) -> bool:
    """Return whether contents of these statuses would be missed by the reader if they did not decode."""
    shapes = {shape for shard in evidence.shards for shape in reader.runs(shard).shapes()}
    return any(
        reader.fates(shape) != reader.fates(_shape_without(shape, statuses)) for shape in shapes
    )


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
    if runs is None or runs.head is None:
        return runs
    inner = [replace(item, shape=_shape_without(item.shape, statuses)) for item in runs.inner]
    head = _run_without(runs.head, statuses)
    tail = _run_without(runs.tail, statuses)
    return Runs(head, tuple(inner), tail)


def _run_without(run: Run | None, statuses: Container[str]) -> Run | None:
    return None if run is None else run._replace(shape=_shape_without(run.shape, statuses))


def _shape_without(shape: Shape, statuses: Container[str]) -> Shape:
    return tuple(part._replace(status=BAD) if part.status in statuses else part for part in shape)
