"""Reading ahead: the thread that reads closes what it has opened.

No command is left running.
"""

import os
import threading
from collections.abc import Callable
from itertools import islice

import pytest

from tests.processes import living_children
from wdsflow.training.feed.epoch.planned_ahead import PlannedAhead
from wdsflow.training.feed.epoch.read_ahead import ReadAhead


def reading() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "wdsflow-ahead"]


@pytest.mark.parametrize("taken", [0, 3, 10])
def test_the_thread_closes_what_it_reads(taken):
    closed = []

    def numbers():
        try:
            yield from range(10)
        finally:
            closed.append(threading.current_thread().name)

    ahead = ReadAhead(numbers(), lambda number: 1, 2, lambda: None)
    assert list(islice(ahead, taken)) == list(range(taken))
    ahead.close()
    for thread in reading():
        thread.join()
    assert closed == ["wdsflow-ahead"]


def test_an_error_of_reading_is_raised_behind_the_items_before_it():
    def numbers():
        yield from range(3)
        raise OSError("disk")

    ahead = ReadAhead(numbers(), lambda number: 5, 2, lambda: None)
    assert list(islice(ahead, 3)) == [0, 1, 2]
    with pytest.raises(OSError, match=r"^disk$"):
        next(iter(ahead))
    ahead.close()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no fifos here")
@pytest.mark.parametrize("url", ["pipe:cat {folder}/{{0..3}}.tar", "pipe:cat {folder}/waits"])
def test_an_epoch_that_is_given_up_leaves_no_command_and_no_thread(tmp_path, url):
    pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")
    from tests.training.shards import write_shards
    from tests.training.test_loader import loader

    write_shards(tmp_path, [40, 40, 40, 40])
    for number in range(4):
        os.rename(tmp_path / f"{number:04d}.tar", tmp_path / f"{number}.tar")
    os.mkfifo(tmp_path / "waits")
    known = living_children()
    loading = loader(
        url.format(folder=tmp_path),
        workers=2,
        batch_size=4,
        arguments_more={"dataset_resampled": True},
    )
    running = iter(loading)
    if "waits" not in url:
        next(running)
    while not living_children(known):
        assert reading()
    run = loading._feed.run
    running.close()
    run.close()
    loading.close()
    for thread in reading():
        thread.join()
    assert living_children(known) == []
    assert loading.tally.damage == {}


def test_an_epoch_that_is_planned_ahead_calls_idle_only_once_it_has_begun() -> None:
    calls: list[str] = []
    given: list[Callable[[], None]] = []

    def plan(idle: Callable[[], None]) -> Callable[[], None]:
        given.append(idle)
        return idle

    ahead = PlannedAhead(3, plan)
    (idle,) = given
    idle()

    planner = ahead.begin(lambda: calls.append("idle"))
    idle()

    assert planner is idle
    assert calls == ["idle"]
