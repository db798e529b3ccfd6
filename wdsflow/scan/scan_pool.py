"""Scans several shards at a time, on this machine or a Ray cluster, and survives dead processes."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import NamedTuple

from wdsflow.engines.base import Engine, EngineName, WorkerFailure, work_on
from wdsflow.engines.first_here import InProcessFirstEngine
from wdsflow.engines.local import LocalEngine
from wdsflow.engines.mark import Mark
from wdsflow.engines.own_process import InProcessEngine
from wdsflow.engines.site import Site, default_processes, first_local
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import file_size

from .evidence import ScanOptions, ShardEvidence
from .scan import scan_shard

Progress = Callable[[ShardEvidence], None]
ScanOne = Callable[[Shard, ScanOptions], ShardEvidence]
# Bytes in all, of which each picture may be decoded in this process.
_SMALL = 32 << 20
# Shards; of more, the sizes are not asked for.
_MANY = 1000


class ScanTask(NamedTuple):
    """One shard to scan."""

    number: int
    url: Shard
    options: ScanOptions
    scan: ScanOne = scan_shard

    def without(self, sample: int) -> "ScanTask":
        """Return the same task: a scan does not report its position."""
        return self


def scan_shards(
    urls: Sequence[Shard],
    options: ScanOptions,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    scan_functions: Sequence[ScanOne] | None = None,
    engine: EngineName = "local",
    address: str | None = None,
) -> list[ShardEvidence]:
    """Scan shards, several at a time, and return their evidence in the order of the urls.

    Args:
        urls: shards.
        options: level, and what readers need to know about contents.
        jobs: processes; None takes one for each core this process may use, two for each if shards
            are remote, or none where they would not pay; 1 scans in this process.
        progress: called in this process after each shard.
        scan_functions: one for each shard, in place of ``scan_shard``; other processes must be able
            to import it.
        engine: "local" or "ray".
        address: of the cluster.

    Raises:
        EngineError: the cluster does not exist, or none of its nodes can scan.
        OSError, RuntimeError: a scan raised an exception, which is a fault of wdsflow or of this
            machine.
    """
    functions = scan_functions or [scan_shard] * len(urls)
    tasks = []
    for number, (url, function) in enumerate(zip(urls, functions, strict=True)):
        tasks.append(ScanTask(number, url, options, function))
    results: dict[int, ShardEvidence] = {}

    with ExitStack() as stack:
        if engine == "ray":
            workers = _on_ray(urls, jobs, address, stack)
        else:
            workers = _on_this_machine(tasks, jobs)
        for task, answer in stack.enter_context(closing(work_on(workers, tasks))):
            shard = answer
            if isinstance(answer, WorkerFailure):
                shard = _evidence_of_lost_shard(task.url, answer)
            results[task.number] = shard
            if progress is not None:
                progress(shard)
    return [results[number] for number in range(len(urls))]


def scan_task(task: ScanTask, _: Mark) -> ShardEvidence:
    """Scan a shard in a worker process."""
    return task.scan(task.url, task.options)


def _on_ray(
    urls: Sequence[Shard], jobs: int | None, address: str | None, stack: ExitStack
) -> "Engine[ScanTask]":
    from wdsflow.engines.cluster import connect_to_cluster
    from wdsflow.engines.ray_engine import RayEngine

    site = Site(first_local(url.path for url in urls))
    start = stack.enter_context(connect_to_cluster(address))
    return start(partial(RayEngine, function=scan_task, site=site, workers=jobs))


def _on_this_machine(tasks: Sequence[ScanTask], jobs: int | None) -> "Engine[ScanTask]":
    """Return the engine: this process while that is quicker, unless another one is necessary.

    Remote shards are read in parallel regardless of size, and in a separate process a damaged image
    can crash only a decoder.
    """
    is_remote = bool(tasks) and tasks[0].url.path is None
    most = min(len(tasks), jobs or default_processes(remote=is_remote))
    if most <= 1:
        return InProcessEngine(scan_task)
    if jobs is None and len(tasks) <= _MANY:
        sizes = {task.number: file_size(task.url) for task in tasks}
        total = sum(sizes.values())
        if all(sizes.values()) and (tasks[0].options.level != "full" or total <= _SMALL):
            return InProcessFirstEngine(scan_task, most, lambda task: sizes[task.number], total)
    return LocalEngine(scan_task, most)


def _evidence_of_lost_shard(url: Shard, failure: WorkerFailure) -> ShardEvidence:
    """Return the evidence of a shard whose process died.

    If the scan raised an exception instead, raises it again: it says nothing about the shard.
    """
    if failure.errno:
        raise OSError(failure.errno, failure.text)
    if failure.trace:
        raise RuntimeError(failure.trace)
    shard = ShardEvidence(url)
    shard.fail("worker-died", failure.text)
    return shard
