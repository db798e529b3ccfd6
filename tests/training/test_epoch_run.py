"""One pass over an epoch: its batches in order, its errors where training waits, and its end."""

import gc
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from wdsflow.training.feed.epoch.epoch_run import EpochRun, Ready


class Batch:
    """What is assembled."""

    def __init__(self, number: int) -> None:
        self.number = number


class Plan:
    """A planner of so many batches, each of one chunk; ``idle`` is called before each chunk."""

    def __init__(self, idle: Any, batches: int) -> None:
        self.idle, self.batches, self.drawn, self.taken, self.given, self.closed = (
            idle,
            batches,
            0,
            0,
            0,
            False,
        )

    @property
    def is_finished(self) -> bool:
        return self.given == self.batches

    @property
    def all_drawn(self) -> bool:
        return self.drawn >= self.batches

    def draw(self) -> list[int]:
        self.idle()
        self.drawn += 1
        return [self.drawn - 1] if self.drawn <= self.batches else []

    def take_results(self, tasks: list[int]) -> None:
        assert tasks == [self.taken]
        self.taken += 1

    def next_batch(self) -> Any:
        if self.given == self.taken:
            return None
        self.given += 1
        number = self.given - 1
        return SimpleNamespace(samples=[number] * 3, number=number, after=[number])

    def close(self) -> None:
        self.closed = True


class Decoding:
    """Decodes each chunk at once, except chunk ``at``.

    There it raises ``error``, or waits until it is released or killed.
    """

    most_chunks = 2

    def __init__(self, at: int = -1, error: Exception | None = None) -> None:
        self.at, self.error = at, error
        self.reached, self.go_on, self.kills, self.closed = (
            threading.Event(),
            threading.Event(),
            0,
            0,
        )

    def send(self, chunk: Any) -> None:
        if chunk.tasks == [self.at]:
            self.reached.set()
            chunk.error = self.error
            if self.error is None:
                self.go_on.wait()
        chunk.done = True

    def wait(self, seconds: float) -> None:
        raise AssertionError("all that was sent is done")

    def kill(self) -> None:
        self.kills += 1
        self.go_on.set()

    def close(self) -> None:
        self.closed += 1


class Backwards(Decoding):
    """Does the chunks that it has been sent when it is waited for, the last one first."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = list[Any]()

    def send(self, chunk: Any) -> None:
        self.sent.append(chunk)

    def wait(self, seconds: float) -> None:
        if seconds:
            self.sent.pop().done = True


class Pass:
    """A pass, and what stands around it."""

    def __init__(self, decoding: Decoding, batches: int = 4) -> None:
        self.batches = batches
        self.decoding, self.made = decoding, list[weakref.ref[Batch]]()
        self.waits: list[float] = []
        self.plan: Any = None
        given: Any = decoding
        # Samples that had been drawn when it was told.
        self.all_drawn: list[int] = []
        self.run = EpochRun(
            lambda: given,
            self._planned,
            self._assemble,
            lambda: self.all_drawn.append(self.plan.drawn),
        )

    def _planned(self, idle: Any) -> Any:
        self.plan = Plan(idle, self.batches)
        return self.plan

    def _assemble(self, samples: Any) -> Batch:
        assert samples == samples[:1] * 3
        batch = Batch(samples[0])
        self.made.append(weakref.ref(batch))
        return batch

    def next(self) -> Ready | None:
        return self.run.next(self.waits.append)


def test_batches_come_in_order_with_their_samples_and_the_end_is_told_as_often_as_it_is_asked_for():
    whole = Pass(Decoding())
    found = [whole.next() for _ in range(4)]
    assert [
        (vars(each.batch)["number"], each.number, each.samples, each.after)
        for each in found
        if each
    ] == [(number, number, 3, [number]) for number in range(4)]
    assert [whole.next(), whole.next()] == [None, None]
    assert whole.run.planner is whole.plan
    assert whole.all_drawn == [4]
    assert (whole.plan.closed, whole.decoding.closed, whole.decoding.kills) == (True, 1, 0)
    whole.run.close()
    whole.run.close()
    with pytest.raises(RuntimeError, match="by another pass, a loaded state or close"):
        whole.next()


def test_an_error_is_raised_after_the_batches_before_it_and_each_time_that_training_asks():
    broken = Pass(Decoding(2, OSError("no such shard")))
    assert [each and each.number for each in (broken.next(), broken.next())] == [0, 1]
    for _ in range(2):
        with pytest.raises(OSError, match="no such shard"):
            broken.next()
    assert broken.decoding.closed == 1


def test_one_batch_is_ready_and_one_is_being_handed_over_while_training_has_another():
    decoding = Decoding(3)
    ahead = Pass(decoding, 9)
    first = ahead.next()
    assert first is not None
    assert first.number == 0
    second = ahead.next()
    assert second is not None
    decoding.reached.wait()
    assert len(ahead.made) == 3  # the third waits where the next one is taken from
    decoding.go_on.set()
    assert [each and each.number for each in (ahead.next(), ahead.next())] == [2, 3]
    ahead.run.close()


def test_closing_waits_for_what_is_being_done_and_lets_go_of_all_batches():
    decoding = Decoding(1)
    closed = Pass(decoding)
    decoding.reached.wait()
    timer = threading.Timer(0.2, decoding.go_on.set)
    timer.start()
    closed.run.close()
    timer.join()
    assert not [
        each
        for each in threading.enumerate()
        if each.name == "wdsflow-feed" and each is closed.run._thread
    ]
    assert (decoding.kills, closed.decoding.closed) == (0, 1)
    gc.collect()
    assert [each() for each in closed.made] == [None] * len(closed.made)
    assert len(closed.made) <= 2


def test_what_hangs_is_killed_when_a_pass_is_closed():
    decoding = Decoding(0)
    hangs = Pass(decoding)
    decoding.reached.wait()
    hangs.run.close(wait=0.01)
    assert decoding.kills == 1
    assert not hangs.run._thread.is_alive()


def test_whoever_waits_is_asked_to_look_around_with_the_time_that_has_passed(monkeypatch):
    monkeypatch.setattr("wdsflow.training.feed.epoch.epoch_run._POLL", 0.01)
    decoding = Decoding(0)
    waiting = Pass(decoding, 1)

    def look(waited: float) -> None:
        waiting.waits.append(waited)
        if len(waiting.waits) == 3:
            decoding.go_on.set()

    ready = waiting.run.next(look)
    assert ready is not None
    assert waiting.waits == sorted(waiting.waits)
    assert 0.01 <= waiting.waits[0] < 60
    with pytest.raises(ZeroDivisionError):
        Pass(Decoding(0)).run.next(lambda waited: 1 // 0)  # type: ignore[arg-type, return-value]
    waiting.run.close()


def test_chunks_that_are_done_in_another_order_make_the_same_batches():
    backwards = Pass(Backwards(), 5)
    assert [each and each.number for each in iter(backwards.next, None)] == [0, 1, 2, 3, 4]
    backwards.run.close()


def test_an_order_that_ends_before_its_epoch_is_an_error_and_no_endless_loop():
    endless = Pass(Decoding(), 2)
    endless.next()
    endless.plan.batches = 3
    endless.plan.draw = list
    endless.next()
    with pytest.raises(RuntimeError, match="names no next sample"):
        endless.next()
    endless.run.close()
