"""How many cases a test has: few in the gate, many in ``scripts/test deep``."""

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import settings


def cases(gate: int) -> settings:
    """Return settings for a test whose cases are slow.

    There are ``gate`` cases in the gate, and 60 times as many in the deep run.
    """
    return settings(
        max_examples=gate * (1 if settings.get_current_profile_name() == "gate" else 60)
    )


def refuse_both(items: Iterable[pytest.Item]) -> None:
    """Raise UsageError if a test has both marks, ``deep`` and ``sample(n)``.

    The gate would run none of its cases.

    Single cases of a test with ``sample(n)`` may be deep: the n cases are taken from the others.
    """
    both = {
        item.nodeid.partition("[")[0]
        for item in items
        if item.get_closest_marker("sample")
        and any(mark.name == "deep" for mark in _marks_of_all_cases(item))
    }
    if both:
        raise pytest.UsageError(
            "`deep` keeps every case out of the gate, `sample(n)` keeps n of them there: remove one of the marks of "
            + ", ".join(sorted(both))
        )


def _marks_of_all_cases(item: pytest.Item) -> Iterator[pytest.Mark]:
    yield from getattr(getattr(item, "obj", None), "pytestmark", ())
    if item.parent is not None:
        yield from item.parent.iter_markers()
