"""The garbage collector leaves older objects alone while shards are worked on, and only then."""

import gc
from threading import Event

from wdsflow.engines.local import OwnProcess
from wdsflow.old_objects import old_objects_kept
from wdsflow.shards.thread_jobs import run_in_threads


class Task:
    """A task that nothing is left out of."""

    def without(self, _: int) -> "Task":
        """Return the same task."""
        return self


def frozen_while_working(_: Task, __: object) -> int:
    return gc.get_freeze_count()


def frozen_when_it_fails(_: Task, __: object) -> int:
    raise ValueError(gc.get_freeze_count())


def test_old_objects_are_left_alone_while_a_task_is_worked_on() -> None:
    for work in (frozen_while_working, frozen_when_it_fails):
        engine = OwnProcess[Task](work)
        engine.submit(Task())
        answer = engine.next()[1]
        engine.close()
        assert answer != 0
        assert gc.get_freeze_count() == 0


def test_old_objects_are_left_alone_while_threads_work() -> None:
    def frozen(_: int, __: Event) -> int:
        return gc.get_freeze_count()

    results: dict[int, int] = {}
    run_in_threads([0, 1, 2], frozen, results.__setitem__, jobs=2)
    assert all(results.values())
    assert gc.get_freeze_count() == 0


def test_objects_that_somebody_froze_stay_frozen() -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with old_objects_kept():
            assert gc.get_freeze_count() == before
        assert gc.get_freeze_count() == before
    finally:
        gc.unfreeze()
