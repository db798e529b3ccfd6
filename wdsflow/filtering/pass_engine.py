"""The engine that processes the shards of a pass."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from wdsflow.engines.base import Engine
from wdsflow.engines.cluster import Cluster, connected
from wdsflow.engines.local import LocalEngine, OwnProcess
from wdsflow.engines.ray_engine import RayActors, has_gpus, slots
from wdsflow.engines.site import Site, first_local
from wdsflow.filtering.deciding.program import program_of
from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.shard.shard_job import run_shard
from wdsflow.filtering.shard.shard_task import ShardTask
from wdsflow.memory.sizes import parse_size
from wdsflow.shards.source.base import local_file

from .process_count import BASE, share_memory
from .run_options import RunOptions


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
