"""The outcome of a preflight: whether training must not begin, and the lines that say why."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from wdsflow.validate.report.report import Report


@dataclass(frozen=True)
class Preflight:
    """The result: lines for users, and whether training must not begin."""

    lines: tuple[str, ...]
    refused: bool = False
    nothing_read: bool = False
    # On the training shards, and on those of --val-data.
    reports: tuple[Report, ...] = ()
    # Of a refusal.
    why: str = ""

    def followed_by(self, other: "Preflight") -> "Preflight":
        """Return the result of two checks, of which this one did not refuse the run."""
        reports = self.reports
        if other.refused:
            reports = tuple(refused_report(report, other.why) for report in reports)
        return Preflight(
            (*self.lines, *other.lines),
            other.refused,
            other.nothing_read,
            (*reports, *other.reports),
        )


class Refusal(Exception):
    """The run would not start, and there is no report. ``hints``: lines on what to do."""

    def __init__(self, why: str, hints: Iterable[str] = (), *, nothing_read: bool = True) -> None:
        super().__init__(why)
        self.why = why
        self.hints = tuple(hints)
        self.nothing_read = nothing_read

    def result(self, title: str) -> Preflight:
        """Return the result of the check with this title."""
        why = f"{title}: {self.why}"
        lines = (*why.split("\n"), *self.hints)
        return Preflight(lines, refused=True, nothing_read=self.nothing_read, why=why)


def refused_report(report: Report, why: str) -> Report:
    """Return the report on a run that does not start, without the forecast."""
    verdicts = [verdict.refused(why) for verdict in report.verdicts]
    return replace(report, verdicts=verdicts, forecasts=())
