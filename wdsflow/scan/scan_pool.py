"""Scans shards, several at a time, on this machine or on a Ray cluster, and survives the death of who scans."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import NamedTuple

from wdsflow.engines.base import Engine, EngineName, Trouble, work_on
from wdsflow.engines.peer import Mark
from wdsflow.engines.site import Site, first_local, processes_pay, usable_cores
from wdsflow.shards.source.base import file_size, local_file

from .evidence import ShardEvidence
from .scan import scan_shard
from .scan_options import ScanOptions

Progress = Callable[[ShardEvidence], None]
ScanOne = Callable[[str, ScanOptions], ShardEvidence]
_SMALL = 32 << 20  # bytes in all; below it a second process costs more than it brings
_MANY = 1000  # shards; of more, the sizes are not asked for


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
        jobs: processes; None takes one for each core this process may use, or none where they would not pay; 1 scans in
            this process.
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

    def note(task: ScanTask, shard: ShardEvidence) -> None:
        results[task.number] = shard
        if progress is not None:
            progress(shard)

    with ExitStack() as stack:
        if engine == "ray":
            workers = _on_ray(urls, jobs, address, stack)
        else:
            if jobs is None:
                _scan_here(tasks, note)
            rest = tasks[len(results) :]
            jobs = min(len(rest), jobs or usable_cores())
            if jobs <= 1:
                for task in rest:
                    note(task, task.how(task.url, options))
                return [results[number] for number in range(len(urls))]
            tasks, workers = rest, _processes(jobs)
        for task, answer in stack.enter_context(closing(work_on(workers, tasks))):
            note(task, _dead(task.url, answer) if isinstance(answer, Trouble) else answer)
    return [results[number] for number in range(len(urls))]


def _scan_here(tasks: Sequence[ScanTask], note: Callable[[ScanTask, ShardEvidence], None]) -> None:
    """Scan shards in this process while the first ones show that the rest takes less time than processes would.

    Remote shards are read side by side, whatever their size, and a process of its own survives what a damaged image
    does to a decoder: of both, none is scanned here.
    """
    if len(tasks) > _MANY or any(local_file(task.url) is None for task in tasks):
        return
    sizes = [file_size(task.url) for task in tasks]
    total = sum(sizes)
    if total > _SMALL and tasks[0].options.level == "full":
        return
    start, done = time.process_time(), 0
    for task, size in zip(tasks, sizes, strict=True):
        if total > _SMALL and done and processes_pay(time.process_time() - start, done, total - done):
            return
        note(task, task.how(task.url, task.options))
        done += size


def scan_task(task: ScanTask, _: Mark) -> ShardEvidence:
    """Scan a shard in a process that does nothing else."""
    return task.how(task.url, task.options)


def _on_ray(urls: Sequence[str], jobs: int | None, address: str | None, stack: ExitStack) -> "Engine[ScanTask]":
    from wdsflow.engines.cluster import connected
    from wdsflow.engines.ray_engine import RayTasks

    site = Site(first_local(local_file(url) for url in urls))
    start = stack.enter_context(connected(address))
    return start(partial(RayTasks, function=scan_task, site=site, workers=jobs))


def _processes(jobs: int) -> "Engine[ScanTask]":
    from wdsflow.engines.local import LocalEngine  # most scans need no further process

    return LocalEngine(scan_task, jobs)


def _dead(url: str, trouble: Trouble) -> ShardEvidence:
    shard = ShardEvidence(url)
    shard.fail("worker-died", trouble.text)
    return shard
