"""How many samples are decided together."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from wdsflow.filtering.deciding.program import Program
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.shard.sample_window import SampleWindow, WindowSize

CAPTION = 1 << 20


def sample(**sizes: int) -> Any:
    members = {name: (f"0.{name}", size, 0, 0, "file") for name, size in sizes.items()}
    return SimpleNamespace(row=SimpleNamespace(start=0, end=512), view=SimpleNamespace(members=members))


def test_windows_grow_while_whole_ones_are_quick() -> None:
    size = WindowSize()
    first = size.samples
    size.took(first - 1, 0.0)
    size.took(first, 9.0)
    assert size.samples == first
    size.took(first, 0.0)
    assert size.samples > first


@pytest.mark.parametrize(("field", "most"), [("caption", 64), ("txt", 64), ("jpg", 1_000)])
def test_a_window_is_full_when_what_it_holds_is_large(field: str, most: int) -> None:
    size = WindowSize()
    size.samples = 1_000
    window = SampleWindow(Program(Recipe(where="width > 1")), size)
    count = 0
    while not window.full:
        window.add(cast("Any", sample(**{field: CAPTION})), 0.5)
        count += 1
    assert count <= most
    assert (field == "jpg") is (count == 1_000)
    assert window.seconds == 0.5 * count
    assert len(window.take()) == count
    assert window.seconds == 0.0
