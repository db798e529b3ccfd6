"""The engine that works on a Ray cluster, by Ray Core. See ``cluster``.

Only tasks and their small answers travel.

Actors open shards and write outputs themselves. A shard whose actor is lost, with its node or
alone, is given to another; it has one answer, because only lost attempts are repeated.
"""

import collections
import time
from collections.abc import Callable
from typing import Any, Generic

from wdsflow.engines.base import Engine, EngineError, T, Task, Work, WorkerFailure
from wdsflow.engines.retries import NODE_LOSSES
from wdsflow.engines.site import Site
from wdsflow.engines.worker import Worker
from wdsflow.text.words import size

# Seconds between two looks at the cluster.
_POLL = 5.0
# Workers on a GPU: it computes no faster with more.
_SHARING = 8
# Seconds until a worker starts: a cluster may have to grow first.
_PATIENCE = 600.0


class RayWorker:
    """An actor with a worker process, which works on one task at a time.

    A sample that kills the process costs as much as on one machine; Ray notices only the loss of a
    whole node.
    """

    def __init__(self, function: Work, site: Site) -> None:
        self._function, self._site = function, site
        self._worker: Worker | None = None

    def start(self) -> str:
        """Return why this machine cannot work; "" if it can."""
        trouble = self._site.why_unusable()
        if not trouble:
            self._worker = Worker(self._function, self._site.hold_lock(), self._site.start_folder())
        return trouble

    def work(self, task: Task) -> Any:
        """Return the answer to a task, or WorkerFailure."""
        assert self._worker is not None
        return self._worker.work(task)


class _Job(Generic[T]):
    """A task, and how often its worker was lost."""

    __slots__ = ("losses", "task")

    def __init__(self, task: T) -> None:
        self.task = task
        self.losses = 0


class RayEngine(Engine[T]):
    """Works with a pool of actors.

    Each has a core, a share of a GPU if requested, and its loaded models.

    There are as many as the cluster has room for, also while it grows and shrinks, at most
    ``workers``. ``memory``: bytes of one actor.
    """

    def __init__(
        self,
        ray: Any,
        function: Work,
        site: Site,
        *,
        workers: int | None = None,
        gpus: float = 0.0,
        memory: int = 0,
    ) -> None:
        self._ray = ray
        self._function = function
        self._site = site
        self._workers = workers
        self._gpus = gpus
        self._memory = memory
        needs = {"num_cpus": 1, "num_gpus": gpus, "memory": memory or None}
        # Ray must not restart actors: a new one gets a shard only once it runs.
        self._remote = ray.remote(RayWorker).options(
            max_restarts=0, scheduling_strategy="SPREAD", **needs
        )
        # Reference -> actor and its job; None: it starts.
        self._under_way: dict[Any, tuple[Any, _Job[T] | None]] = {}
        self._todo: collections.deque[_Job[T]] = collections.deque()
        self._actors: set[Any] = set()
        self._idle: list[Any] = []
        # Actors lost since the last one that started.
        self._failed_starts = 0
        # How many workers there is room for, and when the cluster said so.
        self._capacity = 1
        self._capacity_time = float("-inf")

    @property
    def limit(self) -> int:
        """Maximum concurrency; queried again, because the cluster can scale."""
        if self._workers:
            return self._workers
        now = time.monotonic()
        if now - self._capacity_time > _POLL:
            self._capacity = worker_slots(self._ray, self._gpus)
            self._capacity_time = now
        return self._capacity

    @property
    def most_under_way(self) -> int:
        """Twice as many tasks as ``limit``: none waits for the next."""
        return 2 * self.limit

    def submit(self, task: T) -> None:
        """Take a task."""
        self._todo.append(_Job(task))
        self._dispatch()

    def next(self) -> tuple[T, Any]:
        """Wait for an answer. Raises EngineError if no actor can work."""
        silent = 0.0
        while True:
            ready, _ = self._ray.wait(list(self._under_way), timeout=_POLL)
            if not ready:
                # Nodes may have joined.
                self._dispatch()
                silent += _POLL
                if silent >= _PATIENCE:
                    self._check_alive()
                    silent = 0.0
                continue
            reference = ready[0]
            actor, job = self._under_way.pop(reference)
            errors = self._ray.exceptions
            try:
                answer = self._ray.get(reference)
            except (errors.RayTaskError, errors.RuntimeEnvSetupError) as error:
                # Errors of tasks are their answers.
                raise _unusable_node_error(error) from None
            except errors.RayError as error:
                result = self._handle_lost_actor(actor, job, error)
            else:
                result = self._note_answer(actor, job, answer)
            self._dispatch()
            if result is not None:
                return result

    def close(self) -> None:
        """Kill the actors; their processes end with them."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors.clear()

    def _dispatch(self) -> None:
        while self._todo and self._idle:
            actor = self._idle.pop()
            job = self._todo.popleft()
            self._under_way[actor.work.remote(job.task)] = actor, job
        starting = sum(job is None for _, job in self._under_way.values())
        for _ in range(min(len(self._todo) - starting, self.limit - len(self._actors))):
            actor = self._remote.remote(self._function, self._site)
            self._actors.add(actor)
            self._under_way[actor.start.remote()] = actor, None

    def _note_answer(self, actor: Any, job: _Job[T] | None, answer: Any) -> tuple[T, Any] | None:
        self._idle.append(actor)
        if job is not None:
            return job.task, answer
        self._failed_starts = 0
        if answer:
            raise EngineError(answer)
        return None

    def _handle_lost_actor(
        self, actor: Any, job: _Job[T] | None, error: Exception
    ) -> tuple[T, Any] | None:
        """Repeat the job of a lost actor, or give it up."""
        self._actors.discard(actor)
        # It may only have been out of reach.
        self._ray.kill(actor)
        if job is not None:
            job.losses += 1
            if job.losses >= NODE_LOSSES:
                return job.task, WorkerFailure(
                    f"the worker of this shard was lost {job.losses} times: {_summary(error)}"
                )
            self._todo.appendleft(job)
            return None
        if getattr(error, "actor_init_failed", False):
            raise _unusable_node_error(error)
        self._failed_starts += 1
        if self._failed_starts > self.limit + NODE_LOSSES:
            raise EngineError(f"no worker starts on this cluster: {_summary(error)}")
        return None

    def _check_alive(self) -> None:
        if all(job is None for _, job in self._under_way.values()):
            needs = ["a core"]
            if self._gpus:
                needs.append(f"{self._gpus:g} GPU")
            if self._memory:
                needs.append(f"{size(self._memory)} of memory")
            address = self._ray.get_runtime_context().gcs_address
            raise EngineError(
                f"no node of the cluster has had {' and '.join(needs)} to spare"
                f" for {_PATIENCE:g} seconds; to see what is in use: ray status --address {address}"
            )


def _message_lines(error: Exception) -> list[str]:
    """Return the message of a Ray error, without lines about the actor or tracebacks."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line[0].isspace()]
    return lines or [type(error).__name__]


def _summary(error: Exception) -> str:
    lines = _message_lines(error)
    return " ".join(dict.fromkeys((lines[0], lines[-1])))[:500]


def _unusable_node_error(error: Exception) -> EngineError:
    return EngineError(
        f"a node cannot run wdsflow, which all of the cluster need to have: {_message_lines(error)[-1][:500]}"
    )


def has_gpus(ray: Any) -> bool:
    """Return whether any node has GPUs: if none has, models run on the cores."""
    return bool(ray.cluster_resources().get("GPU"))


def gpu_share(ray: Any, measure: Callable[[], float | None], declared: float) -> float:
    """Return the share of a GPU for each worker, by a measurement on a whole GPU of the cluster.

    It is 1 / n for the largest n workers, at most ``_SHARING``, whose measured needs fit;
    ``declared`` if there is no measurement, or if workers need whole GPUs.
    """
    if declared >= 1:
        return declared
    try:
        need = ray.get(ray.remote(num_cpus=1, num_gpus=1)(measure).remote(), timeout=_PATIENCE)
    except ray.exceptions.RayError:
        # The workers will report why models do not load.
        return declared
    if need is None:
        return declared
    fitting = int(1 / max(need, 1e-9))
    return 1 / max(1, min(_SHARING, fitting))


def worker_slots(ray: Any, gpus: float) -> int:
    """Return how many workers fit into the cluster as it is now, at least 1.

    Each has a core, and ``gpus`` GPUs.
    """
    count = 0
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        resources = node["Resources"]
        workers = int(resources.get("CPU", 0))
        if gpus:
            workers = min(workers, int(resources.get("GPU", 0) / gpus + 1e-6))
        count += workers
    return max(count, 1)
