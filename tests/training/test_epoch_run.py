"""One pass over an epoch: its batches in order, its errors where training waits, and its end."""

import gc
import threading
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from wdsflow.training.feed.epoch_run import EpochRun, Ready


class Batch:
    """What is assembled."""

    def __init__(self, number: int) -> None:
        self.number = number


class Plan:
    """A planner of so many batches, each of one chunk; ``idle`` is called before each chunk."""

    def __init__(self, idle: Any, batches: int) -> None:
        self.idle, self.batches, self.taken, self.given, self.closed = idle, batches, 0, 0, False

    @property
    def finished(self) -> bool:
        return self.given == self.batches

    def chunks(self) -> Iterator[list[int]]:
        for number in range(self.batches):
            self.idle()
            yield [number]

    def take(self, chunk: list[int], results: list[Any]) -> None:
        assert chunk == [self.taken]
        self.taken += 1

    def next_batch(self) -> Any:
        if self.given == self.taken:
            return None
        self.given += 1
        number = self.given - 1
        return SimpleNamespace(samples=[number] * 3, tasks=[number], number=number, after=[number])

    def close(self) -> None:
        self.closed = True


class Engine:
    """Does the work at once; waits ``at`` a chunk until it is let go on, or killed, or fails there."""

    def __init__(self, at: int = -1, error: Exception | None = None, *, lacks: int = 0) -> None:
        self.at, self.error, self.lacks = at, error, lacks
        self.reached, self.go_on, self.kills = threading.Event(), threading.Event(), 0

    def map(self, work: Any, chunks: Iterator[list[int]]) -> Iterator[Any]:
        for chunk in chunks:
            if chunk == [self.at]:
                self.reached.set()
                if self.error is not None:
                    raise self.error
                self.go_on.wait()
            if not self.lacks or chunk[0] < self.lacks:
                yield chunk, []

    def kill(self) -> None:
        self.kills += 1
        self.go_on.set()


class Pass:
    """A pass, and what stands around it."""

    def __init__(self, engine: Engine, batches: int = 4) -> None:
        self.batches = batches
        self.engine, self.made = engine, list[weakref.ref[Batch]]()
        self.files = SimpleNamespace(closed=0, close=self._close_files)
        self.waits: list[float] = []
        self.plan: Any = None
        given: tuple[Any, Any] = (engine, SimpleNamespace(files=self.files))
        self.run = EpochRun(*given, self._assemble, self._planned)

    def _planned(self, idle: Any) -> Any:
        self.plan = Plan(idle, self.batches)
        return self.plan

    def _close_files(self) -> None:
        self.files.closed += 1

    def _assemble(self, samples: list[int], tasks: list[Any]) -> Batch:
        assert samples == tasks * 3
        batch = Batch(tasks[0])
        self.made.append(weakref.ref(batch))
        return batch

    def next(self) -> Ready | None:
        return self.run.next(self.waits.append)


def test_batches_come_in_order_with_their_samples_and_the_end_is_told_as_often_as_it_is_asked_for():
    whole = Pass(Engine())
    found = [whole.next() for _ in range(4)]
    assert [(vars(each.batch)["number"], each.number, each.samples, each.after) for each in found if each] == [
        (number, number, 3, [number]) for number in range(4)
    ]
    assert [whole.next(), whole.next()] == [None, None]
    assert whole.run.planner is whole.plan
    assert (whole.plan.closed, whole.files.closed, whole.engine.kills) == (True, 1, 0)
    whole.run.close()
    whole.run.close()
    with pytest.raises(RuntimeError, match="by another pass, a loaded state or close"):
        whole.next()


@pytest.mark.parametrize(
    ("engine", "said"),
    [(Engine(2, OSError("no such shard")), "no such shard"), (Engine(lacks=2), "came to its end before the epoch did")],
)
def test_an_error_is_raised_after_the_batches_before_it_and_each_time_that_training_asks(engine, said):
    broken = Pass(engine)
    assert [each and each.number for each in (broken.next(), broken.next())] == [0, 1]
    for _ in range(2):
        with pytest.raises((OSError, RuntimeError), match=said):
            broken.next()
    assert broken.files.closed == 1


def test_one_batch_is_ready_and_one_is_being_handed_over_while_training_has_another():
    engine = Engine(3)
    ahead = Pass(engine, 9)
    first = ahead.next()
    assert first is not None
    assert first.number == 0
    second = ahead.next()
    assert second is not None
    engine.reached.wait()
    assert len(ahead.made) == 3  # the third waits where the next one is taken from
    engine.go_on.set()
    assert [each and each.number for each in (ahead.next(), ahead.next())] == [2, 3]
    ahead.run.close()


def test_closing_waits_for_what_is_being_done_and_lets_go_of_all_batches():
    engine = Engine(1)
    closed = Pass(engine)
    engine.reached.wait()
    timer = threading.Timer(0.2, engine.go_on.set)
    timer.start()
    closed.run.close()
    timer.join()
    assert not [each for each in threading.enumerate() if each.name == "wdsflow-feed" and each is closed.run._thread]
    assert (engine.kills, closed.files.closed) == (0, 1)
    gc.collect()
    assert [each() for each in closed.made] == [None] * len(closed.made)
    assert len(closed.made) <= 2


def test_what_hangs_is_killed_when_a_pass_is_closed():
    engine = Engine(0)
    hangs = Pass(engine)
    engine.reached.wait()
    hangs.run.close(wait=0.01)
    assert engine.kills == 1
    assert not hangs.run._thread.is_alive()


def test_whoever_waits_is_asked_to_look_around_with_the_time_that_has_passed(monkeypatch):
    monkeypatch.setattr("wdsflow.training.feed.epoch_run._LOOK", 0.01)
    engine = Engine(0)
    waiting = Pass(engine, 1)

    def look(waited: float) -> None:
        waiting.waits.append(waited)
        if len(waiting.waits) == 3:
            engine.go_on.set()

    ready = waiting.run.next(look)
    assert ready is not None
    assert waiting.waits == sorted(waiting.waits)
    assert 0.01 <= waiting.waits[0] < 60
    with pytest.raises(ZeroDivisionError):
        Pass(Engine(0)).run.next(lambda waited: 1 // 0)  # type: ignore[arg-type, return-value]
    waiting.run.close()
