"""How many samples an element of a pipeline holds, and which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from wdsflow.validate.pipeline.meters.batch_counts import BatchCounts
from wdsflow.validate.pipeline.meters.reported_stage import ReportedStage
from wdsflow.validate.pipeline.values.elements import columns_of, keys_in, may_be_batch, samples_in
from wdsflow.validate.pipeline.values.rows import rows_of, rows_of_batch

KEYS = frozenset({"000", "001", "002"})
PICTURE = np.zeros((4, 4, 3), np.uint8)


@dataclass
class Pair:
    """A batch or a sample as an object."""

    image: Any
    text: Any


@pytest.mark.parametrize(
    ("item", "keys"),
    [
        ({"__key__": "any", "x": "000"}, ["any"]),
        ({"__key__": ["any", "other"], "x": 1}, ["any", "other"]),
        ({"__key__": 5, "x": "000"}, ["000"]),
        ({"x": ["000", "001"], "y": 1}, ["000", "001"]),
        ({"x": ["000", "other"]}, []),
        ({"__key__": [], "x": 1}, []),
        ({"__key__": ["a", 1]}, []),
        (["000", "001"], ["000", "001"]),
        ((PICTURE, "001"), ["001"]),
        ([PICTURE, ["002", "001"], 3], ["002", "001"]),
        ([{"__key__": "a"}, {"__key__": "b"}], ["a", "b"]),
        ([(PICTURE, "000"), (PICTURE, "001")], ["000", "001"]),
        ("000", ["000"]),
        ("other", []),
        (7, []),
        ([PICTURE, "other"], []),
        ([None, "000"], ["000"]),
    ],
)
def test_keys_are_found_in_samples_and_batches(item: object, keys: list[str]) -> None:
    assert keys_in(item, KEYS) == keys


@pytest.mark.parametrize(
    ("item", "size", "count"),
    [
        ([], 4, 0),
        ({}, 4, 0),
        (None, 4, 0),
        (({"a": np.zeros((3, 2))}, np.zeros(3)), 0, 3),
        ({"__key__": ["a", "b", "c"]}, 0, 3),
        ({"x": [1, 2], "y": {"z": [3, 4]}}, 0, 2),
        ({"x": [1, 2], "y": {"z": [3]}}, 0, None),
        (Pair([1, 2, 3], ["a", "b", "c"]), 0, 3),
        ((np.zeros((5, 2)), ["a"] * 5), 0, 5),
        ([{"x": 1}, {"x": 2}], 0, 2),
        ([(PICTURE, "a"), (PICTURE, "b"), (PICTURE, "c")], 0, 3),
        # Lists in a list: a full batch has four samples.
        ([[1] * 4, [2] * 4], 4, 4),
        ([[1, 2]] * 4, 4, 4),
        ([[1] * 4] * 4, 4, None),
        ([[1] * 3, [2] * 3], 4, None),
        ([[1] * 3, [2] * 3], 0, None),
        # Of a batch with single values, only a known size shows that the others are columns.
        ({"x": [1, 2, 3], "epoch": 7}, 0, None),
        ({"x": [1, 2, 3], "epoch": 7, "name": "a", "none": None, "n": np.zeros(())}, 4, 3),
        ({"x": [1, 2, 3], "other": object()}, 4, None),
        ({"x": [1, 2, 3], "y": [1], "epoch": 7}, 4, None),
        (["a text", b"another"], 4, 2),
        (["a text", 5], 4, None),
        # No batch has more than a full one.
        ({"x": [1] * 5}, 4, None),
        ({"x": [1] * 4}, 4, 4),
        (PICTURE[0, 0, 0], 0, None),
    ],
)
def test_the_samples_in_a_batch_are_counted_by_its_form(
    item: object, size: int, count: int | None
) -> None:
    assert samples_in(item, KEYS, size) == count


@pytest.mark.parametrize(
    ("item", "may_be"),
    [
        (np.zeros((4, 7)), True),
        (np.zeros(()), False),
        (PICTURE, False),
        (["a", "b"], True),
        (["a"], False),
        (["a", 1], False),
        ([PICTURE, PICTURE], True),
        ([PICTURE, PICTURE[:2]], False),
        ([[1, 2], [3, 4]], True),
        (([1, 2], [3, 4]), True),
        (([1], [2, 3]), False),
        (({"x": 1}, {"x": 2}), True),
        (("a", 1), False),
        ({"x": [1, 2]}, True),
        ({"x": 1}, False),
    ],
)
def test_an_element_without_keys_may_be_a_batch(item: object, may_be: bool) -> None:
    assert may_be_batch(item) is may_be


def test_columns_have_the_path_of_their_fields() -> None:
    assert columns_of({"a": {"b": 1, "c": {"d": 2}}, "e": [3]}) == {"a.b": 1, "a.c.d": 2, "e": [3]}
    assert columns_of(Pair(1, {"x": 2})) == {"image": 1, "text.x": 2}
    assert columns_of((1, 2)) == {"0": 1, "1": 2}
    assert columns_of(7) == {"": 7}
    assert columns_of(Pair) == {"": Pair}


def counted(batches: Sequence[object], size: int) -> list[int | None]:
    """Return the samples in the batches of one stage, whose full batches have a size."""
    stages = [ReportedStage(1, "samples"), ReportedStage(2, "batched", batch=size)]
    counts = BatchCounts(stages, frozenset())
    found = [counts.samples_in(1, batch) for batch in batches]
    assert counts.samples_in_last == found[-1]
    return found


def test_a_batch_that_is_not_full_is_read_as_the_full_ones_before() -> None:
    columns = [[[1] * 4, [2] * 4], [[1] * 3, [2] * 3]]
    records = [[[1, 2, 3]] * 4, [[1, 2, 3]] * 2]

    assert counted(columns, 4) == [4, 3]
    assert counted(records, 4) == [4, 2]
    # It may be either.
    assert counted(columns[1:], 4) == [None]
    # Another number of columns than the full ones have.
    assert counted([columns[0], [[1] * 3] * 3], 4) == [4, None]
    assert counted([columns[0], [[1] * 5] * 2], 4) == [4, None]
    # Whatever a batch of one sample was made into.
    assert counted([7], 1) == [1]
    assert counted([7], 0) == [None]


def test_batches_become_rows_with_what_belongs_to_all_of_them() -> None:
    batch = {"x": [1, 2], "of": {"y": ["a", "b"]}, "epoch": 7}
    rows = rows_of_batch(batch, 2, ())

    assert [list(row) for row in rows] == [["x", "of.y"], ["x", "of.y"]]
    assert rows[0] != rows[1]
    assert rows_of_batch({"x": [1, 2, 3]}, 2, ()) == []
    assert rows_of_batch([("a", 1), ("b", 2)], 2, ()) == [
        *rows_of(("a", 1), ()),
        *rows_of(("b", 2), ()),
    ]
