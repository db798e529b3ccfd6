"""How many rows go into a batch, and how many workers fit."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.mapping.batch_size import BatchSizer
from wdsflow.mapping.result_size import estimated_result_size
from wdsflow.mapping.worker_pool import workers_that_fit

MIB = 1 << 20


def test_the_first_batch_is_one_row_and_the_next_are_at_most_twice_as_long():
    sizer, lengths = BatchSizer(1000), []
    for _ in range(12):
        lengths.append(sizer.rows(1000 * MIB))
        sizer.record_success(lengths[-1], lengths[-1] * 1000)
    assert lengths == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000]


@given(
    st.lists(st.integers(1, 50 * MIB), min_size=1, max_size=40), st.integers(64 * MIB, 4096 * MIB)
)
def test_a_batch_fits_into_the_room_if_its_rows_take_what_the_latest_took(
    needs: list[int], room: int
):
    sizer = BatchSizer(1000)
    for need in needs:
        rows = sizer.rows(room)
        assert rows == 1 or rows * max(sizer.row_bytes, 1) <= room
        sizer.record_success(rows, rows * need)


def test_what_was_too_much_is_halved_and_forgotten_slowly():
    sizer = BatchSizer(1000)
    for _ in range(10):
        sizer.record_success(sizer.rows(1 << 40), 1)
    sizer.record_out_of_memory(512)
    assert sizer.rows(1 << 40) == 256
    for _ in range(8):
        sizer.record_success(256, 256)
    assert 256 < sizer.rows(1 << 40) < 512
    for _ in range(2):
        sizer.record_out_of_memory(1)
    assert sizer.rows(1 << 40) == 1


@given(st.integers(1, 1 << 40), st.integers(0, 1 << 33), st.floats(0, 1e12), st.integers(1, 256))
def test_there_is_always_a_worker_and_each_of_several_has_room_for_two_rows(
    memory, idle, need, most
):
    count = workers_that_fit(memory, idle, need, most)
    assert 1 <= count <= most
    assert count == 1 or count * (idle + 2 * need) <= memory


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (numpy.zeros((1000, 1000), numpy.float32), 4_000_000),
        ({"a": [numpy.zeros(1000)] * 500}, 4_000_000),
        ([[0.5] * 1000 for _ in range(1000)], 24_000_000 + 8_000_000),
        ({"text": ["x" * 1000] * 2000}, 2_000_000),
    ],
)
def test_results_are_weighed_by_their_content(value, size):
    assert 0.95 * size < estimated_result_size(value) < 1.2 * size


def test_tables_and_images_are_weighed_by_their_content():
    import pyarrow
    from PIL import Image

    assert (
        8_000_000 <= estimated_result_size(pyarrow.table({"a": numpy.zeros(1_000_000)})) < 8_010_000
    )
    assert 4_000_000 <= estimated_result_size([Image.new("RGB", (1000, 1000))]) < 4_010_000
