"""Scans shards, several at a time, on this machine or on a Ray cluster, and survives the death of who scans."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from wdsflow.engines.base import Engine, EngineName, Trouble, work_on
from wdsflow.engines.local import LocalEngine
from wdsflow.engines.peer import Mark
from wdsflow.engines.site import Site, first_local, usable_cores
from wdsflow.shards.source.base import local_file

from .evidence import ShardEvidence
from .scan import ScanOptions, scan_shard

Progress = Callable[[ShardEvidence], None]
ScanOne = Callable[[str, ScanOptions], ShardEvidence]
_SMALL = 32 << 20  # bytes in all; below it a second process costs more than it brings


class ScanTask(NamedTuple):
    """One shard to scan."""

    number: int
    url: str
    options: ScanOptions
    how: ScanOne = scan_shard

    def without(self, sample: int) -> "ScanTask":
        """Return the same task: a scan does not tell at which sample it is."""
        return self


def scan_shards(
    urls: Sequence[str],
    options: ScanOptions,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    how: Sequence[ScanOne] | None = None,
    engine: EngineName = "local",
    address: str | None = None,
) -> list[ShardEvidence]:
    """Scan shards, several at a time, and return their evidence in the order of the urls.

    Args:
        urls: shards.
        options: level and what readers ask of contents.
        jobs: processes; None takes one for each core this process may use, 1 scans in this process.
        progress: called in this process after each shard.
        how: what scans each shard, in another way than ``scan_shard``; other processes must be able to import it.
        engine: who scans; see ``check``.
        address: of the cluster.

    Raises:
        EngineError: there is no cluster, or nobody there can scan.
    """
    ways = how or [scan_shard] * len(urls)
    tasks = [ScanTask(number, url, options, way) for number, (url, way) in enumerate(zip(urls, ways, strict=True))]
    results: dict[int, ShardEvidence] = {}
    with ExitStack() as stack:
        if engine == "ray":
            workers = _on_ray(urls, jobs, address, stack)
        else:
            jobs = min(len(urls), jobs or _jobs(urls))
            if jobs <= 1:
                return [_tell(task.how(task.url, options), progress) for task in tasks]
            workers = LocalEngine(scan_task, jobs)
        for task, answer in stack.enter_context(closing(work_on(workers, tasks))):
            results[task.number] = _tell(_dead(task.url, answer) if isinstance(answer, Trouble) else answer, progress)
    return [results[number] for number in range(len(urls))]


def scan_task(task: ScanTask, _: Mark) -> ShardEvidence:
    """Scan a shard in a process that does nothing else."""
    return task.how(task.url, task.options)


def _on_ray(urls: Sequence[str], jobs: int | None, address: str | None, stack: ExitStack) -> "Engine[ScanTask]":
    from wdsflow.engines.cluster import connected
    from wdsflow.engines.ray_engine import RayTasks

    site = Site(first_local(local_file(url) for url in urls))
    start = stack.enter_context(connected(address))
    return start(partial(RayTasks, function=scan_task, site=site, workers=jobs))


def _jobs(urls: Sequence[str]) -> int:
    total = 0
    for url in urls[:1000]:
        try:
            total += Path(url).stat().st_size
        except OSError:
            total += _SMALL if "://" in url else 0  # remote shards are read side by side, whatever their size
        if total > _SMALL:
            return usable_cores()
    return 1


def _tell(shard: ShardEvidence, progress: Progress | None) -> ShardEvidence:
    if progress is not None:
        progress(shard)
    return shard


def _dead(url: str, trouble: Trouble) -> ShardEvidence:
    shard = ShardEvidence(url)
    shard.fail("worker-died", trouble.text)
    return shard
