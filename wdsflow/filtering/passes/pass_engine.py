"""The engine of a pass: how many workers fit into the memory, and where they run."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from wdsflow.engines.base import Engine
from wdsflow.engines.cluster import Cluster, connect_to_cluster
from wdsflow.engines.first_here import InProcessFirstEngine
from wdsflow.engines.local import LocalEngine
from wdsflow.engines.own_process import InProcessEngine
from wdsflow.engines.ray_engine import RayEngine, gpu_share, has_gpus, worker_slots
from wdsflow.engines.site import Site, default_processes, first_local, usable_cores
from wdsflow.filtering.deciding.plan import plan_of
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_options import RunOptions
from wdsflow.filtering.shard.run_shard import run_shard
from wdsflow.filtering.shard.shard_task import ShardTask
from wdsflow.memory.sizes import format_size, parse_size
from wdsflow.models.memory_share import memory_share
from wdsflow.models.model_location import WINDOW
from wdsflow.records.run_folder import Layout
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import file_size

# Bytes of a process before it sees a sample.
BASE = 160 << 20


class TooLittleMemory(ValueError):
    """Too little memory for one worker, which needs ``least`` bytes."""

    def __init__(self, memory: int, image: int, least: int) -> None:
        super().__init__(
            f"{format_size(memory)} is too little memory: a worker and one image of {format_size(image)} need"
            f" {format_size(least)}; --image-memory lowers that"
        )
        self.least = least


def worker_count(
    memory: int | None,
    workers: int | None,
    shards: int,
    image: int,
    cores: int = 0,
    worker: int = BASE,
) -> int:
    """Return the number of worker processes; 0 stays 0: work in this process.

    ``memory`` bounds all processes together, including the caller: each worker must be able to hold
    an image of ``image`` bytes. ``cores``: slots of a cluster, or the usual number of processes
    here; 0 takes one for each core. ``worker``: memory of a worker before its first sample. Raises
    ValueError if memory is not enough for one worker.

    >>> worker_count(4 << 30, 16, 100, 512 << 20)
    5
    """
    cores = cores or usable_cores()
    most = min(cores if workers is None else workers, max(shards, 1))
    if memory is None:
        return most
    fits = int(memory >= BASE + image) if not most else max(memory - BASE, 0) // (worker + image)
    if not fits:
        least = BASE + image + (worker if most else 0)
        raise TooLittleMemory(memory, image, least)
    return min(most, fits)


def connected_cluster(options: RunOptions) -> AbstractContextManager[Cluster | None]:
    """Stay connected to the cluster of a run, None for this machine. Raises EngineError."""
    return nullcontext() if options.engine == "local" else connect_to_cluster(options.address)


def engine_for(
    recipe: Recipe,
    layout: Layout,
    options: RunOptions,
    urls: Sequence[Shard],
    locks: Sequence[int],
    cluster: Cluster | None,
    *,
    scores: bool,
    window: int = WINDOW,
) -> Engine[ShardTask]:
    """Return the engine of a run.

    ``urls``: shards to process. ``locks``: descriptors that workers of this machine hold.
    ``cluster``: the cluster, None for this machine. ``scores``: whether any are computed.
    ``window``: bytes of items that a worker sends to models together; it holds two. Raises
    ValueError if memory is not enough for one worker, EngineError if no worker can start.
    """
    if cluster is not None:
        return _cluster_engine(recipe, layout, options, urls, cluster, scores=scores)
    worker = BASE + 2 * (window - WINDOW)
    image = parse_size(recipe.image_memory)
    usual = default_processes(remote=any(url.path is None for url in urls[:1]))
    workers = worker_count(options.memory, options.jobs, len(urls), image, usual, worker)
    if not workers:
        return InProcessEngine(run_shard)
    if options.jobs is None and plan_of(recipe).is_safe(scores=scores):
        sizes = [file_size(url) for url in urls]
        # All are files of this machine.
        if sizes and all(sizes):
            return InProcessFirstEngine(
                run_shard, workers, lambda task: file_size(task.url), sum(sizes), locks
            )
    return LocalEngine(run_shard, workers, locks)


def _cluster_engine(
    recipe: Recipe,
    layout: Layout,
    options: RunOptions,
    urls: Sequence[Shard],
    cluster: Cluster,
    *,
    scores: bool,
) -> Engine[ShardTask]:
    """Return the engine of a run on a cluster. Raises as ``engine_for``."""
    plan = plan_of(recipe)
    visible = (str(layout.inside.absolute()), *first_local(url.path for url in urls))
    lock = ""
    if not options.dry_run:
        lock = str(layout.workers_lock(options.index, options.count).absolute())
    gpus = plan.gpus if scores and options.device != "cpu" else 0.0
    models = plan.models if scores else ()
    make = partial(
        _actor_engine,
        site=Site(visible, lock),
        workers=options.jobs,
        memory=options.memory,
        need=partial(memory_share, models, options.device, options.gpu_memory),
        shards=len(urls),
        image=parse_size(recipe.image_memory),
        gpus=gpus,
    )
    return cluster(make)


def _actor_engine(
    ray: object,
    *,
    site: Site,
    workers: int | None,
    memory: int | None,
    need: Callable[[], float | None],
    shards: int,
    image: int,
    gpus: float,
) -> RayEngine[ShardTask]:
    """Return the engine of a run on a cluster; runs where Ray is."""
    # An actor, and its process.
    worker = 2 * BASE
    gpus = gpu_share(ray, need, gpus) if gpus and has_gpus(ray) else 0.0
    # Otherwise as many as fit into the cluster at that time.
    if memory is not None:
        workers = worker_count(memory, workers, shards, image, worker_slots(ray, gpus), worker)
    return RayEngine(ray, run_shard, site, workers=workers, gpus=gpus, memory=worker + image)
