"""What is said of a resumed run, by its samples alone."""

import pytest

from wdsflow.validate.pipeline.checks.resume_difference import (
    ExpectedSamples,
    SampleIds,
    difference,
)
from wdsflow.validate.pipeline.values.marks import KEY


def ids(keys: str) -> SampleIds:
    return [(f"{KEY}{key}",) for key in keys]


# An epoch "abcdef" that was interrupted after two samples, and the next one.
EXPECTED = ExpectedSamples(ids("ab"), ids("cdef"), ids("fedcba"))
# The same at the end of an epoch.
AT_END = ExpectedSamples([], [], ids("fedcba"))


@pytest.mark.parametrize(
    ("expected", "epochs", "message"),
    [
        (EXPECTED, ["cdef", "fedcba"], None),
        (EXPECTED, ["", "cdef", "fedcba"], None),
        (AT_END, ["", "fedcba"], None),
        (EXPECTED, ["", ""], "it hands out nothing"),
        (EXPECTED, ["abcdef", "fedcba"], "the epoch begins again: 2 samples come a second time"),
        (EXPECTED, ["bcdef", "fedcba"], "1 sample repeated (such as b)"),
        (EXPECTED, ["def", "fedcba"], "1 sample lost (such as c)"),
        (
            EXPECTED,
            ["bdef", "fedcba"],
            "1 sample repeated (such as b) and 1 sample lost (such as c)",
        ),
        (
            EXPECTED,
            ["fedc", "fedcba"],
            "the samples come in another order than without the interruption",
        ),
        (EXPECTED, ["cdef", "cdef"], "the next epoch has 4 samples instead of 6"),
        (
            EXPECTED,
            ["cdef", "abcdef"],
            "the next epoch has another order than without the interruption",
        ),
        (AT_END, ["ab", "fedcba"], "2 samples repeated before the next epoch"),
        (AT_END, ["abcdef", ""], "the next epoch has another order than without the interruption"),
    ],
)
def test_a_resumed_run_is_compared_with_what_it_must_hand_out(
    expected: ExpectedSamples, epochs: list[str], message: str | None
) -> None:
    result = difference(expected, [ids(keys) for keys in epochs], ended=True, same_order=True)

    assert (result.message if result else None) == message
    assert result is None or result.is_fault


def test_a_run_that_was_ended_has_lost_nothing() -> None:
    assert difference(EXPECTED, [ids("cd")], ended=False, same_order=True) is None


def test_an_order_that_changes_from_run_to_run_is_no_fault() -> None:
    assert difference(EXPECTED, [ids("fdec"), ids("bacdef")], ended=True, same_order=False) is None
    result = difference(EXPECTED, [ids("bcd")], ended=False, same_order=False)
    assert result is not None
    assert not result.is_fault
