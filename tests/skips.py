"""The tests that may be skipped, and why.

A run fails if another test is skipped, or one for another reason.
"""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("expected_skips.txt")


def expected_skips(path: Path = LIST) -> list[tuple[str, str]]:
    """Return (pattern of test ids, pattern of reasons) for each line of the list.

    Raises ValueError for a line without a reason.
    """
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pattern, colon, reason = line.partition(": ")
        if not colon or not reason.strip():
            raise ValueError(f"{path.name}: no reason in {line!r}; a line is PATTERN: REASON")
        found.append((pattern.strip(), reason.strip()))
    return found


class SkipWatch:
    """A pytest plugin that fails the run if a test or file is skipped unexpectedly."""

    def __init__(self, expected: list[tuple[str, str]]) -> None:
        self.expected = expected
        self.surprising: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a test that is skipped, or was expected to fail."""
        self._note(report)

    def pytest_collectreport(self, report: Any) -> None:
        """Note a file that is skipped as a whole."""
        self._note(report)

    def _note(self, report: Any) -> None:
        if report.outcome != "skipped" or hasattr(report, "wasxfail"):
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if not any(
            fnmatchcase(report.nodeid, test) and fnmatchcase(reason, why)
            for test, why in self.expected
        ):
            self.surprising[report.nodeid] = reason

    def pytest_sessionfinish(self, session: Any) -> None:
        """Let the run fail."""
        if self.surprising and session.exitstatus == 0:
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say which tests were skipped, and what to do."""
        if not self.surprising:
            return
        terminalreporter.section("skipped, and not in tests/expected_skips.txt")
        for name, reason in sorted(self.surprising.items()):
            terminalreporter.line(f"{name}: {reason}")
        terminalreporter.line(
            "install what they need, or add `PATTERN: REASON` to that list, with the reason that is printed here"
        )
