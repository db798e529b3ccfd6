"""The engine of a pass: who works on its shards."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from wdsflow.engines.base import Engine
from wdsflow.engines.local import LocalEngine, OwnProcess
from wdsflow.engines.site import Site, first_local
from wdsflow.filtering.job import run_shard
from wdsflow.filtering.layout import Layout
from wdsflow.filtering.options import RunOptions
from wdsflow.filtering.program import program_of
from wdsflow.filtering.recipe import Recipe
from wdsflow.filtering.share import BASE, share_memory
from wdsflow.filtering.task import ShardTask
from wdsflow.memory.sizes import parse_size
from wdsflow.shards.source import local_file


def joined(options: RunOptions) -> AbstractContextManager[Any]:
    """Stay in the cluster that a run works on, if any, from one of its passes to the next. Raises EngineError."""
    if options.engine == "local":
        return nullcontext()
    from wdsflow.engines.cluster import connected

    return connected(options.address)


def engine_for(
    recipe: Recipe, layout: Layout, options: RunOptions, urls: Sequence[str], locks: Sequence[int], *, scores: bool
) -> Engine[ShardTask]:
    """Return the engine that a run asks for.

    ``urls``: shards to work on. ``locks``: descriptors that workers of this machine hold. ``scores``: whether any are
    computed. Raises ValueError where memory is not enough for one worker, EngineError where there is no cluster.
    """
    image = parse_size(recipe.image_memory)
    if options.engine == "local":
        workers = share_memory(options.memory, options.workers, len(urls), image)
        return LocalEngine(run_shard, workers, locks) if workers else OwnProcess(run_shard)
    from wdsflow.engines.cluster import connected, has_gpus, slots
    from wdsflow.engines.ray_engine import RayActors

    own = 2 * BASE  # an actor, and the process that it looks after
    most = options.workers  # None: as many as the cluster has room for, whatever that is by then
    with connected(options.address) as ray:
        gpus = program_of(recipe).gpus if scores and has_gpus(ray) else 0.0
        if options.memory is not None:
            most = share_memory(options.memory, options.workers, len(urls), image, slots(ray, gpus), own)
    sees = (str(layout.inside.absolute()), *first_local(local_file(url) for url in urls))
    hold = "" if options.dry_run else str(layout.workers_lock(options.index, options.count).absolute())
    return RayActors(run_shard, Site(sees, hold), options.address, workers=most, gpus=gpus, memory=own + image)
