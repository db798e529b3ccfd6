"""The engine of a pass, and how many processes it has."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from wdsflow.engines.base import Engine
from wdsflow.engines.cluster import Cluster, connected
from wdsflow.engines.local import LocalEngine, OwnProcess
from wdsflow.engines.ray_engine import RayActors, has_gpus, slots
from wdsflow.engines.site import Site, first_local, usable_cores
from wdsflow.filtering.deciding.program import program_of
from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.shard.shard_job import run_shard
from wdsflow.filtering.shard.shard_task import ShardTask
from wdsflow.memory.sizes import format_size, parse_size
from wdsflow.shards.source.base import local_file

from .run_options import RunOptions

BASE = 160 << 20  # bytes of a process before it sees a sample


class TooLittleMemory(ValueError):
    """Too little memory for one worker, which needs ``least`` bytes."""

    def __init__(self, memory: int, image: int, least: int) -> None:
        super().__init__(
            f"{format_size(memory)} is too little memory: a worker and one image of {format_size(image)} need"
            f" {format_size(least)}; --image-memory lowers that"
        )
        self.least = least


def share_memory(
    memory: int | None, workers: int | None, shards: int, image: int, cores: int = 0, own: int = BASE
) -> int:
    """Return the number of worker processes; 0 stays 0, which is work in this process.

    ``memory`` bounds all processes together, the caller included: it allows as many workers as can each hold an image
    of ``image`` bytes. ``cores``: those of a cluster, otherwise of this machine. ``own``: memory of a worker before its
    first sample. Raises ValueError if it is not enough for one.

    >>> share_memory(4 << 30, 16, 100, 512 << 20)
    5
    """
    cores = cores or usable_cores()
    wanted = min(cores if workers is None else workers, max(shards, 1))
    if memory is None:
        return wanted
    fits = int(memory >= BASE + image) if not wanted else max(memory - BASE, 0) // (own + image)
    if not fits:
        least = BASE + image + (own if wanted else 0)
        raise TooLittleMemory(memory, image, least)
    return min(wanted, fits)


def joined(options: RunOptions) -> AbstractContextManager[Cluster | None]:
    """Stay connected to the cluster of a run, None for this machine. Raises EngineError."""
    return nullcontext() if options.engine == "local" else connected(options.address)


def engine_for(
    recipe: Recipe,
    layout: Layout,
    options: RunOptions,
    urls: Sequence[str],
    locks: Sequence[int],
    cluster: Cluster | None,
    *,
    scores: bool,
) -> Engine[ShardTask]:
    """Return the engine of a run.

    ``urls``: shards to process. ``locks``: descriptors that workers of this machine hold. ``cluster``: the cluster,
    None for this machine. ``scores``: whether any are computed. Raises ValueError if memory is not enough for one
    worker, EngineError if nobody can work.
    """
    image = parse_size(recipe.image_memory)
    if cluster is None:
        workers = share_memory(options.memory, options.workers, len(urls), image)
        return LocalEngine(run_shard, workers, locks) if workers else OwnProcess(run_shard)
    sees = (str(layout.inside.absolute()), *first_local(local_file(url) for url in urls))
    hold = "" if options.dry_run else str(layout.workers_lock(options.index, options.count).absolute())
    gpus = program_of(recipe).gpus if scores else 0.0
    make = partial(_actors, site=Site(sees, hold), workers=options.workers, memory=options.memory)
    return cluster(partial(make, shards=len(urls), image=image, gpus=gpus))


def _actors(
    ray: Any, *, site: Site, workers: int | None, memory: int | None, shards: int, image: int, gpus: float
) -> RayActors[ShardTask]:
    """Return the engine of a run on a cluster; runs where Ray is."""
    own = 2 * BASE  # an actor, and its process
    gpus = gpus if has_gpus(ray) else 0.0
    if memory is not None:  # otherwise as many as the cluster has room for at that time
        workers = share_memory(memory, workers, shards, image, slots(ray, gpus), own)
    return RayActors(ray, run_shard, site, workers=workers, gpus=gpus, memory=own + image)
