"""How many samples are decided together."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from wdsflow import Recipe
from wdsflow.filtering.deciding.direct_scores import ViewedSample
from wdsflow.filtering.deciding.plan import FilterPlan
from wdsflow.filtering.shard.sample_window import SampleWindow, WindowSize
from wdsflow.shards.samples.tar_samples import TarSample

CAPTION = 1 << 20


def sample(**sizes: int) -> ViewedSample:
    members = {name: (f"0.{name}", size, 0, 0, "file") for name, size in sizes.items()}
    return ViewedSample(
        cast("Any", SimpleNamespace(start=0, end=512, fields=tuple(members))),
        cast("Any", SimpleNamespace(members=members)),
    )


def test_windows_grow_while_whole_ones_are_quick() -> None:
    size = WindowSize()
    first = size.samples
    size.adapt_to(first - 1, 0.0)
    size.adapt_to(first, 9.0)
    assert size.samples == first
    size.adapt_to(first, 0.0)
    assert size.samples > first


@pytest.mark.parametrize(("field", "most"), [("caption", 64), ("txt", 64), ("jpg", 1_000)])
def test_a_window_is_full_when_what_it_holds_is_large(field: str, most: int) -> None:
    size = WindowSize()
    size.samples = 1_000
    window = SampleWindow(FilterPlan(Recipe(where="width > 1")), size)
    count = 0
    while not window.is_full:
        window.add([sample(**{field: CAPTION})], 0.5)
        count += 1
    assert count <= most
    assert (field == "jpg") is (count == 1_000)
    assert window.seconds == 0.5 * count
    assert len(window.take_all()) == count
    assert window.seconds == 0.0


def test_neighbouring_samples_come_in_parts_that_the_window_has_room_for() -> None:
    size = WindowSize()
    size.samples = 5
    window = SampleWindow(FilterPlan(Recipe(where="width > 1")), size)
    window.add([sample(jpg=1)] * 3, 0.0)
    group = []
    for number in range(8):
        group.append(TarSample(number, str(number), start=number << 20))
        group[-1].end = (number + 1) << 20
    # One that is larger than all that a window may hold comes alone.
    group[-1].end += 1 << 30
    parts = [[tar_sample.number for tar_sample in part] for part in window.parts(group)]
    assert parts == [[0, 1], [2, 3], [4, 5], [6], [7]]
