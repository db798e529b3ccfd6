"""Requests of the engines to a Ray cluster, and their handling of lost workers.

A stand-in for Ray loses workers on demand.
"""

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.golden_file import check_text
from wdsflow.engines import ray_engine
from wdsflow.engines.base import EngineError, WorkerFailure
from wdsflow.engines.ray_engine import RayEngine, has_gpus, worker_slots
from wdsflow.engines.site import Site

pytestmark = [
    pytest.mark.xdist_group("cluster"),
    pytest.mark.usefixtures("new_interpreters"),
]

GOLDEN = Path(__file__).parent / "golden" / "ray_window.txt"


class RayError(Exception):
    """As ray.exceptions.RayError."""


class RayTaskError(RayError):
    """As ray.exceptions.RayTaskError."""


class RuntimeEnvSetupError(RayError):
    """As ray.exceptions.RuntimeEnvSetupError."""


class StartError(RayError):
    """As ray.exceptions.ActorDiedError of an actor whose ``__init__`` raised."""

    actor_init_failed = True


class Cluster:
    """A stand-in for Ray that records requests.

    It gives each attempt the next of its outcomes: an answer or an exception.
    """

    def get_runtime_context(self) -> SimpleNamespace:
        return SimpleNamespace(gcs_address="10.0.0.1:6379")

    exceptions = SimpleNamespace(
        RayError=RayError, RayTaskError=RayTaskError, RuntimeEnvSetupError=RuntimeEnvSetupError
    )

    def __init__(
        self, outcomes: dict[Any, list[Any]], nodes: list[tuple[bool, dict[str, float]]]
    ) -> None:
        self.outcomes, self.events = (
            {what: iter(found) for what, found in outcomes.items()},
            list[str](),
        )
        self._nodes, self._numbers = nodes, itertools.count()

    def record(self, *words: object) -> None:
        self.events.append(" ".join(map(str, words)))

    def remote(self, thing: Any) -> Any:
        return SimpleNamespace(options=lambda **options: self._optioned(thing, options))

    def _optioned(self, thing: Any, options: dict[str, Any]) -> Any:
        self.record(
            "options of",
            thing.__name__,
            *(f"{name}={value}" for name, value in sorted(options.items())),
        )

        def start(function: Any, site: Site) -> Any:
            name = f"actor {next(self._numbers)}"
            self.record("start", name)
            return Actor(self, name)

        return SimpleNamespace(remote=start)

    def _attempt(self, who: str, what: Any) -> tuple[str, Any]:
        self.record(who, "begins", what)
        return who, what

    def wait(self, under_way: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        assert timeout == ray_engine._POLL
        if not under_way or "silence" in self.outcomes:
            return [], under_way
        return under_way[:1], under_way[1:]

    def get(self, reference: tuple[str, Any]) -> Any:
        outcome = next(self.outcomes.get(reference[1], iter(())), f"answer to {reference[1]}")
        if isinstance(outcome, Exception):
            self.record(reference[0], "loses", reference[1])
            raise outcome
        return None if outcome == "ready" else outcome

    def kill(self, actor: Any) -> None:
        self.record("kill", actor.name)

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": alive, "Resources": has} for alive, has in self._nodes]

    def cluster_resources(self) -> dict[str, float]:
        return self._nodes[0][1]


class Actor:
    """A handle."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.start = SimpleNamespace(remote=self._ready)
        self.work = SimpleNamespace(remote=lambda task: cluster._attempt(name, task))
        self._cluster = cluster

    def _ready(self) -> tuple[str, str]:
        self._cluster.record(self.name, "is asked to be ready")
        return self.name, "ready"


ONE, TWO = [(True, {"CPU": 1.0})], [(True, {"CPU": 2.0}), (False, {"CPU": 64.0})]
READY = ["ready"] * 99
LOST = RayError(
    "The actor died unexpectedly before finishing this task.\n\tclass_name: X\nThe node was lost."
)
CASES: dict[str, tuple[dict[Any, list[Any]], list[Any], list[str], dict[str, Any]]] = {
    "an actor that is lost three times": (
        {"ready": READY, "a": [LOST] * 3},
        ONE,
        ["a", "b", "c"],
        {},
    ),
    "a node without wdsflow": (
        {"ready": [RuntimeEnvSetupError("No module named 'wdsflow'")]},
        ONE,
        ["a"],
        {},
    ),
    "a fault of the program": (
        {"ready": READY, "a": [RayTaskError("Traceback\n  File x\nKeyError: 3")]},
        ONE,
        ["a"],
        {},
    ),
    "one worker": ({"ready": READY}, TWO, ["a", "b"], {"workers": 1}),
    "actors that are given up": ({"ready": READY}, TWO, ["a", "b", "c"], {}),
    "actors": ({"ready": READY}, TWO, ["a", "b", "c", "d"], {}),
    "actors with GPUs": (
        {"ready": READY},
        [(True, {"CPU": 8.0, "GPU": 1.0})],
        ["a", "b", "c"],
        {"gpus": 0.5, "memory": 99},
    ),
    "an actor that is lost": ({"ready": READY, "a": [LOST]}, ONE, ["a", "b"], {"workers": 1}),
    "an actor that is lost each time": (
        {"ready": READY, "a": [LOST] * 9},
        ONE,
        ["a", "b"],
        {"workers": 2},
    ),
    "an actor that does not start": ({"ready": [LOST, *READY]}, ONE, ["a"], {}),
    "actors that never start": ({"ready": [LOST] * 99}, ONE, ["a"], {}),
    "an actor that cannot be made": (
        {"ready": [StartError("a\nImportError: no PIL")]},
        ONE,
        ["a"],
        {},
    ),
    "an actor without the shards": ({"ready": ["node 7 has no /data"]}, ONE, ["a"], {}),
    "nobody answers for actors": ({"silence": []}, ONE, ["a"], {"gpus": 0.5}),
}


@pytest.mark.parametrize("name", CASES)
def test_tasks_are_given_to_the_cluster_and_again_where_it_loses_them(name):
    outcomes, nodes, tasks, options = CASES[name]
    cluster = Cluster(outcomes, nodes)
    engine: RayEngine[Any] = RayEngine(cluster, len, Site(), **options)
    cluster.record("limit", engine.limit, "most_under_way", engine.most_under_way)
    for task in tasks:
        engine.submit(task)
    try:
        for _ in tasks:
            task, answer = engine.next()
            cluster.record(
                "done",
                task,
                f"trouble: {answer.text}" if isinstance(answer, WorkerFailure) else answer,
            )
            if "given up" in name:
                break
    except EngineError as error:
        cluster.record("ends:", error)
    before, cluster.events = cluster.events, []
    engine.close()
    engine.close()
    check_text(GOLDEN, name, "\n".join([*before, *sorted(cluster.events)]))


@pytest.mark.parametrize(
    ("nodes", "gpus", "count"),
    [
        ([(True, {"CPU": 3.9}), (True, {"CPU": 2.0}), (False, {"CPU": 9.0})], 0.0, 5),
        (
            [
                (True, {"CPU": 8.0, "GPU": 2.0}),
                (True, {"CPU": 1.0, "GPU": 2.0}),
                (True, {"CPU": 4.0}),
            ],
            0.5,
            5,
        ),
        ([(True, {"CPU": 8.0, "GPU": 0.9})], 0.3, 3),
        ([(True, {"GPU": 2.0})], 0.0, 1),
    ],
)
def test_there_is_room_for_so_many_workers(nodes, gpus, count):
    cluster = Cluster({}, nodes)
    assert worker_slots(cluster, gpus) == count
    assert has_gpus(cluster) == ("GPU" in nodes[0][1])


def test_the_cluster_is_asked_again_whether_it_has_grown(monkeypatch):
    cluster, now = Cluster({}, [*ONE]), [100.0]
    monkeypatch.setattr("wdsflow.engines.ray_engine.time.monotonic", lambda: now[0])
    engine: RayEngine[Any] = RayEngine(cluster, len, Site())
    assert engine.limit == 1
    cluster._nodes += TWO
    now[0] += 4.9
    assert engine.limit == 1
    now[0] += 0.2
    assert (engine.limit, engine.most_under_way) == (3, 6)
