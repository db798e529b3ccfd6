"""The garbage collector leaves older objects alone while shards are worked on, and only then."""

import gc
from collections.abc import Iterator
from threading import Event

import pytest

from wdsflow.engines.base import WorkerFailure
from wdsflow.engines.own_process import InProcessEngine
from wdsflow.old_objects import has_frozen_objects, old_objects_kept
from wdsflow.shards.thread_jobs import run_in_threads

# Python 3.12 begins with some hundred frozen objects; libraries have many more.
FEW = 1000


class Task:
    """A task that nothing is left out of."""

    def without(self, _: int) -> "Task":
        """Return the same task."""
        return self


def count_frozen(_: Task, __: object) -> int:
    return gc.get_freeze_count()


def fail(_: Task, __: object) -> int:
    raise ValueError(gc.get_freeze_count())


@pytest.fixture(autouse=True)
def nothing_frozen() -> Iterator[None]:
    gc.unfreeze()
    has_frozen_objects.cache_clear()
    yield
    gc.unfreeze()
    has_frozen_objects.cache_clear()


def answer_of(work: object) -> object:
    engine = InProcessEngine[Task](work)  # type: ignore[arg-type]
    engine.submit(Task())
    answer = engine.next()[1]
    engine.close()
    return answer


def test_old_objects_are_left_alone_while_a_task_is_worked_on() -> None:
    answer = answer_of(count_frozen)
    assert isinstance(answer, int)
    assert answer > FEW
    assert gc.get_freeze_count() < FEW


def test_they_are_looked_at_again_after_a_task_that_failed() -> None:
    assert isinstance(answer_of(fail), WorkerFailure)
    assert gc.get_freeze_count() < FEW


def test_old_objects_are_left_alone_while_threads_work() -> None:
    results: dict[int, int] = {}

    def count(_: int, __: Event) -> int:
        return gc.get_freeze_count()

    run_in_threads([0, 1, 2], count, results.__setitem__, jobs=2)
    assert min(results.values()) > FEW
    assert gc.get_freeze_count() < FEW


def test_objects_that_somebody_froze_stay_frozen() -> None:
    gc.freeze()
    with old_objects_kept(), old_objects_kept():
        before = gc.get_freeze_count()
    # Meanwhile threads of earlier tests may have ended, and their objects with them.
    assert gc.get_freeze_count() >= before - FEW
    assert before > 10 * FEW


def test_a_block_inside_another_ends_nothing() -> None:
    with old_objects_kept():
        with old_objects_kept():
            pass
        assert gc.get_freeze_count() > FEW
    assert gc.get_freeze_count() < FEW
