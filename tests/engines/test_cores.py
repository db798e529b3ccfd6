import os

import pytest

from wdsflow.engines import site as cores
from wdsflow.engines.site import schedulable_cores, usable_cores
from wdsflow.filtering.passes.pass_engine import worker_count
from wdsflow.memory import bounds as limits
from wdsflow.training.feed.memory_shares import divide_memory


@pytest.mark.parametrize(
    ("granted", "usable"),
    [
        ("max 100000", 6),
        ("250000 100000", 2),
        ("50000 100000", 1),
        ("9900000 100000", 6),
        ("1 0", 6),
        ("", 6),
    ],
)
def test_a_container_may_grant_fewer_processors_than_it_shows(
    tmp_path, monkeypatch, granted, usable
):
    (tmp_path / "cpu.max").write_text(granted)
    monkeypatch.setattr(cores, "_GRANTED", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert schedulable_cores() == 6
    assert usable_cores() == worker_count(None, None, 100, 1 << 20) == usable


def test_a_feed_takes_half_of_what_the_container_has_not_of_the_machine(monkeypatch):
    sizes = {
        "batch": 8,
        "sample": 1 << 10,
        "made": 1 << 10,
        "decoders": 1,
        "chunk": 4,
        "streams": 1,
    }
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(limits, "control_groups", lambda: [limits.Bound(512 << 20, 0)])
    found = divide_memory(None, **sizes)
    assert found.decode + found.shuffle + found.raw <= 256 << 20
    monkeypatch.setattr(limits, "control_groups", list)
    assert divide_memory(None, **sizes).decode > found.decode
