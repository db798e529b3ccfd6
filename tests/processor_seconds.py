"""Measures the CPU seconds of each test.

Includes the processes that the test started and waited for.
"""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from support.processor_seconds import unit_name


class ProcessorSeconds:
    """A pytest plugin that appends a line for each test to a file.

    The fields, separated by tabs: the CPU seconds of the test, the unit that it belongs to, and its
    id.

    Unlike wall time, processor time is the same next to other programs. Fixtures count for the test
    that sets them up, and processes that live on for the test in which they end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note what a test takes, setup and teardown included."""
        start = _seconds()
        result = yield
        unit = unit_name(item)
        line = f"{_seconds() - start:.3f}\t{unit}\t{item.nodeid}\n"
        # One write: other processes append to the same file.
        with self._path.open("ab", buffering=0) as file:
            file.write(line.encode(errors="backslashreplace"))
        return result


def _seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
