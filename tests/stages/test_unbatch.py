"""Unbatch: Batch undone."""

import numpy as np
import pytest

from wdsflow.stages import Batch, StageError, Unbatch

SAMPLES = [{"__key__": str(number), "__url__": "x.tar", "txt": "a" * number} for number in range(7)]


@pytest.mark.parametrize("size", [1, 3, 7, 10])
def test_it_undoes_batch(size):
    assert list(Unbatch()(Batch(size)(SAMPLES))) == SAMPLES


def test_fields_may_have_become_arrays():
    batch = {"__key__": ["a", "b"], "score": np.array([0.5, 0.25])}
    assert [sample["score"] for sample in Unbatch()([batch])] == [0.5, 0.25]


@pytest.mark.parametrize(
    "value", [["only one"], "ab", b"ab", 7, None, np.array(3.0), {"a": 1, "b": 2}]
)
def test_a_batch_that_cannot_be_divided_is_an_error(value):
    batch = {"__key__": ["a", "b"], "txt": value}
    with pytest.raises(StageError, match="of 2 samples, 'txt' has"):
        list(Unbatch()([batch]))
    stage = Unbatch(on_error="drop")
    assert len(list(stage([batch, {"__key__": ["c"]}]))) == 1
    assert (stage.counts.seen, stage.counts.kept, stage.counts.failed) == (
        3,
        1,
        {"ragged-batch": 2},
    )


def test_an_empty_batch_has_no_samples():
    assert list(Unbatch()([{}, {"__key__": [], "txt": []}])) == []
