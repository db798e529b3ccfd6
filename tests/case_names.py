"""Names of test cases, which have to be the same in each process."""

import re
from collections.abc import Iterable

import pytest

_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+")


def without_address(value: object) -> str:
    """Return the text of a value for the name of a test, without its address in memory."""
    return _ADDRESS.sub("", str(value))


def refuse_addresses(items: Iterable[pytest.Item]) -> None:
    """Raise UsageError if the name of a test holds an address in memory.

    pytest-xdist collects in several processes, and needs the same names in each.
    """
    names = [item.nodeid for item in items if _ADDRESS.search(item.nodeid)]
    if names:
        raise pytest.UsageError(
            "these names differ between processes; give their cases ids=without_address, "
            "from tests.case_names: " + ", ".join(names)
        )
