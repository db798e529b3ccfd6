"""Sizes as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.memory.sizes import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("17", 17),
        ("17B", 17),
        ("1kB", 1000),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("1.5GB", 1_500_000_000),
        ("0.1GB", 100_000_000),  # a float would be cut to 99,999,999 or not, by luck
        ("1.1 GiB", 1_181_116_006),
        ("2gib", 2 << 30),
        (" 3 TiB ", 3 << 40),
        ("1_000 MB", 10**9),
        (12, 12),
    ],
)
def test_a_size_is_read_exactly(text: str | int, size: int):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "GB", "-1GB", "1 GBs", "1e9", "1,5GB", "1.5", "nan", "2Gi", "٣GB", -1, None, True, 1.5],
)
def test_what_is_no_size_is_refused(text: object):
    with pytest.raises(ValueError, match=r"size|unit"):
        parse_size(text)


def test_a_letter_with_two_meanings_is_refused_with_both():
    with pytest.raises(ValueError, match=r"'2GiB' \(1024\) or '2GB' \(1000\)"):
        parse_size("2G")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1 MiB"),
        (-2048, "-2 KiB"),
    ],
)
def test_a_size_is_shown_in_the_largest_unit_that_fits(size: int, text: str):
    assert format_size(size) == text


@given(st.integers(0, 1 << 60))
def test_what_is_shown_is_read_back_to_within_a_twentieth_of_its_unit(size: int):
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.05)
