"""The processor time that units of tests take, recorded in a file by `scripts/test seconds`."""

from collections import Counter
from pathlib import Path
from typing import TextIO

import pytest

# A line each: seconds, a space, the unit.
SECONDS = Path(__file__).resolve().parents[2] / "tests" / "processor_seconds.txt"
# Units that take less begin last, in any order.
LEAST = 1.0
# Tests that are printed.
SHOWN = 100


def unit_name(item: pytest.Item) -> str:
    """Return the name of a test's unit.

    It is the test's file, or the name in its mark ``xdist_group(name)``.
    """
    mark = item.get_closest_marker("xdist_group")
    if mark is not None:
        return str(mark.args[0])
    return item.nodeid.partition("::")[0]


def read_seconds() -> dict[str, float]:
    """Return the recorded processor time of units, by name."""
    seconds: dict[str, float] = {}
    if SECONDS.is_file():
        for line in SECONDS.read_text("utf-8").splitlines():
            number, _, unit = line.partition(" ")
            seconds[unit] = float(number)
    return seconds


def write_seconds(record: Path, out: TextIO) -> None:
    """Write the file of seconds, and print the slowest tests.

    Input lines hold seconds, unit and test, separated by tabs.
    """
    units: Counter[str] = Counter()
    tests: list[tuple[float, str]] = []
    for line in record.read_text("utf-8").splitlines():
        seconds, unit, test = line.split("\t")
        units[unit] += float(seconds)  # type: ignore[assignment]
        tests.append((float(seconds), test))
    tests.sort(reverse=True)
    for seconds_of_test, test in tests[:SHOWN]:
        print(f"{seconds_of_test:7.2f} s  {test}", file=out)
    print(f"{sum(units.values()):.0f} s of processor time in {len(tests)} tests", file=out)
    lines = [f"{total:.0f} {unit}\n" for unit, total in units.most_common() if total >= LEAST]
    SECONDS.write_text("".join(lines), "utf-8")
