"""Filtering by pixels on a Ray cluster of two cores, and on one core.

Decoding takes nearly all of the time.
"""

import logging
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

WHERE = "blur > 0 and entropy > 0 and contrast > 0"
CORES = 2


def on_one_core(paths: Sequence[str], clock: Callable[[], Any]) -> dict[str, Any]:
    """Filter in one process."""
    from wdsflow.filtering.run_options import RunOptions

    return _filter(paths, RunOptions(jobs=1), clock)


def on_ray(paths: Sequence[str], clock: Callable[[], Any]) -> dict[str, Any]:
    """Filter with Ray actors.

    The cluster is warmed up before the clock starts; the actors are not started yet.
    """
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    from wdsflow.filtering.run_options import RunOptions

    ray.init(
        num_cpus=CORES, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
    )
    try:
        waiting = ray.remote(_wait)
        # A cluster that has just begun is busy with its own start.
        ray.get([waiting.remote() for _ in range(CORES)])
        return _filter(paths, RunOptions(engine="ray"), clock)
    finally:
        ray.shutdown()


def _wait() -> None:
    time.sleep(2)


def _filter(paths: Sequence[str], options: Any, clock: Callable[[], Any]) -> dict[str, Any]:
    from wdsflow.filtering.recipe.recipe import Recipe
    from wdsflow.filtering.run_filter import filter_shards

    with tempfile.TemporaryDirectory(
        prefix="wdsflow-bench-", dir=os.path.dirname(os.path.dirname(paths[0]))
    ) as folder:
        timer = clock()
        report = filter_shards(paths, folder, Recipe(where=WHERE), options)
        result: dict[str, Any] = timer.stop(samples=report.total("samples"))
    return result
