"""Ray: found, connected, and asked how large it is."""

import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from typing import Any

from wdsflow.engines.base import EngineError
from wdsflow.text.install import install_extras

_PATIENCE = 10.0  # seconds


def load_ray() -> Any:
    """Import Ray. Raises EngineError with the way to get it."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray 3 does; without, it warns
    try:
        import ray
    except ImportError:
        raise EngineError(f"the engine ray needs Ray: {install_extras('ray')}") from None
    return ray


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """Connect to the cluster at an address, or, where None is given, to ``RAY_ADDRESS``, that of this machine, or a new one.

    Ray that the program has connected before is taken as it is, and stays. Raises EngineError.
    """
    ray = load_ray()
    if ray.is_initialized():
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a new cluster would report itself to its makers
    _must_answer(address or os.environ.get("RAY_ADDRESS", ""))
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (ImportError, OSError, RuntimeError, ValueError) as error:  # a lost connection is an OSError
        raise EngineError(f"no Ray cluster{f' at {address}' if address else ''}: {error}") from None
    with _quiet(ray):
        try:
            yield ray
        finally:
            ray.shutdown()


def _must_answer(address: str) -> None:
    """Refuse an address where nobody listens: Ray would wait for many minutes."""
    host, _, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not port.isdigit():
        return  # "auto", "local" and such
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except OSError as error:
        raise EngineError(f"no Ray cluster at {address}: {error.strerror or error}") from None


@contextlib.contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Keep Ray from printing the logs of lost nodes on standard output, where a report may go; it has no setting for it."""
    worker: Any = getattr(getattr(ray, "_private", None), "worker", None)
    before = getattr(worker, "_worker_logs_enabled", None)
    if before is None:
        yield
        return
    worker._worker_logs_enabled = False  # noqa: SLF001
    try:
        yield
    finally:
        worker._worker_logs_enabled = before  # noqa: SLF001


def has_gpus(ray: Any) -> bool:
    """Tell whether any node has GPUs: where none has, models run on the cores."""
    return bool(ray.cluster_resources().get("GPU"))


def slots(ray: Any, gpus: float) -> int:
    """Return how many workers fit into the cluster as it is now, each with a core and some GPUs; 1 at least."""
    count = 0
    for node in ray.nodes():
        if node["Alive"]:
            has = node["Resources"]
            cores = int(has.get("CPU", 0))
            count += min(cores, int(has.get("GPU", 0) / gpus + 1e-6)) if gpus else cores
    return max(count, 1)
