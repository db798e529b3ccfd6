"""Batch: no bound is ever broken, and nothing is lost without a count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.depth import cases
from wdsflow.memory.weigh import estimated_size
from wdsflow.stages import Batch, StageError


def sizes(stage: Batch, samples: list[dict[str, object]]) -> list[int]:
    return [len(batch["__key__"]) for batch in stage(samples)]


def keyed(**fields: list[object]) -> list[dict[str, object]]:
    rows = zip(*fields.values(), strict=True)
    return [
        {"__key__": f"{number}", **dict(zip(fields, row, strict=True))}
        for number, row in enumerate(rows)
    ]


def test_a_batch_is_a_list_for_each_field():
    [batch] = Batch(2)(keyed(image=["i", "j"], text=["t", "u"]))
    assert batch == {"__key__": ["0", "1"], "image": ["i", "j"], "text": ["t", "u"]}


def test_the_last_batch_is_kept_or_dropped_and_counted():
    samples = keyed(text=list("abcde"))
    assert sizes(Batch(2), samples) == [2, 2, 1]
    stage = Batch(2, partial=False)
    assert sizes(stage, samples) == [2, 2]
    assert stage.counts.dropped == {"partial-batch": 1}


def test_a_full_batch_comes_out_before_another_sample_is_asked_for():
    stage = Batch(2)
    next(stage(keyed(text=list("abcde"))))
    assert stage.counts.seen == 2


def test_tokens_are_counted_as_padded():
    # 3 + 3 tokens, then one of 5 would make 3 * 5.
    samples = keyed(text=[[0] * 3, [0] * 3, [0] * 5, [0] * 5, [0] * 1])
    assert sizes(Batch(max_tokens=12), samples) == [2, 2, 1]


def test_pixels_are_counted_as_padded_to_both_the_largest_height_and_width():
    samples = keyed(image=[Image.new("L", (100, 10)), Image.new("L", (10, 100))])
    assert sizes(Batch(max_pixels=20_000), samples) == [2]
    assert sizes(Batch(max_pixels=19_999), samples) == [1, 1]


@pytest.mark.parametrize(
    "shape", [(10, 100), (3, 10, 100), (10, 100, 3), (10, 100, 4), (1, 10, 100)]
)
def test_arrays_are_measured_whatever_the_order_of_their_dimensions(shape):
    assert sizes(Batch(max_pixels=1000), keyed(image=[np.zeros(shape)] * 2)) == [1, 1]
    assert sizes(Batch(max_pixels=2000), keyed(image=[np.zeros(shape)] * 2)) == [2]


def test_bytes_are_added_up():
    samples = keyed(jpg=[bytes(1000)] * 5)
    assert sizes(Batch(max_bytes=2 * estimated_size(samples[0])), samples) == [2, 2, 1]


@cases(8)
@given(
    st.lists(st.integers(1, 30), max_size=40),
    st.none() | st.integers(1, 6),
    st.integers(30, 80),
)
def test_no_batch_breaks_a_bound_and_none_could_have_taken_the_next_sample(lengths, size, most):
    batches = list(Batch(size, max_tokens=most)(keyed(text=[[0] * length for length in lengths])))
    found = [[len(text) for text in batch["text"]] for batch in batches]
    assert [length for batch in found for length in batch] == lengths
    for batch, after in zip(found, [*found[1:], []], strict=False):
        assert len(batch) * max(batch) <= most
        assert size is None or len(batch) <= size
        if after:
            more = [*batch, after[0]]
            assert len(batch) == size or len(more) * max(more) > most


@pytest.mark.parametrize(
    ("stage", "samples", "slug"),
    [
        ({"max_tokens": 4}, [{"__key__": "a", "text": [0] * 5}], "larger-than-batch"),
        ({"max_tokens": 4}, [{"__key__": "a", "text": "a cat"}], "not-measured"),
        ({"max_tokens": 4}, [{"__key__": "a"}], "not-measured"),
        ({"max_pixels": 4}, [{"__key__": "a", "image": b"..."}], "not-measured"),
        (
            {"size": 4},
            [{"__key__": "b", "txt": 1}, {"__key__": "a", "txt": 1, "json": 2}],
            "other-fields",
        ),
    ],
)
def test_a_sample_that_fits_no_batch_is_an_error_with_a_name(stage, samples, slug):
    with pytest.raises(StageError, match="batch: sample 'a' of None") as caught:
        list(Batch(**stage)(samples))
    assert caught.value.slug == slug
    lenient = Batch(**stage, on_error="drop")
    assert sum(sizes(lenient, samples)) == len(samples) - 1
    assert lenient.counts.failed == {slug: 1}


@pytest.mark.parametrize(
    "bounds", [{}, {"size": 0}, {"max_tokens": 0}, {"max_bytes": 0}, {"size": 2, "max_pixels": -1}]
)
def test_a_batch_without_a_bound_is_refused(bounds):
    with pytest.raises(ValueError, match="bound"):
        Batch(**bounds)


@pytest.mark.parametrize(
    ("shape", "pixels"),
    [((5, 7), 35), ((1, 5, 4), 20), ((3, 5, 4), 20), ((4, 5, 3), 15), ((5, 4, 1), 20), ((5, 6, 3), 30), ((5, 6, 4), 30), ((2, 5, 4), 10), ((2, 5, 7), 35)],
    ids=str,
)  # fmt: skip
def test_pixels_are_height_times_width_wherever_the_channels_are(shape, pixels):
    image = np.zeros(shape, np.uint8)
    assert (
        len(list(Batch(max_pixels=pixels, image="image")([{"__key__": "a", "image": image}]))) == 1
    )
    with pytest.raises(StageError, match="alone it is more"):
        list(Batch(max_pixels=pixels - 1, image="image")([{"__key__": "a", "image": image}]))


def test_tokens_are_the_length_of_a_list_or_of_the_last_dimension():
    for tokens in ([1, 2, 3], (1, 2, 3), np.zeros(3), np.zeros((2, 3))):
        assert len(list(Batch(max_tokens=3, text="txt")([{"__key__": "a", "txt": tokens}]))) == 1
        with pytest.raises(StageError, match="alone it is more"):
            list(Batch(max_tokens=2, text="txt")([{"__key__": "a", "txt": tokens}]))
