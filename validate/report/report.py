"""The result of validation, and how it is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wdsflow.scan.evidence import Evidence, Level

from ..finding import Advice, Finding
from ..forecast.forecast_result import Forecast
from ..verdicts.check_result import CheckResult
from ..verdicts.verdict import Verdict
from ..verdicts.wording import no_verdict_text


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict for each reader, its findings, and what to do.

    ``str(report)`` is the text that ``wdsflow validate`` prints, ``report.to_dict()`` what
    ``--format json`` holds; a notebook shows it as a page.
    """

    # As written.
    urls: Sequence[str]
    evidence: Evidence
    verdicts: Sequence[Verdict] = ()
    findings: list[Finding] = field(default_factory=list)
    # With the reason why they are accepted.
    ignored: list[tuple[Finding, str]] = field(default_factory=list)
    # Only findings that are not in the baseline fail.
    against_baseline: bool = False
    forecasts: Sequence[Forecast] = ()
    advice: Sequence[Advice] = ()
    level: Level = "headers"
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    # The findings in the baseline.
    accepted: Sequence[Finding] = ()
    # Of the user's loader.
    checks: Sequence[CheckResult] = ()
    # Of wdsflow, Python and the installed readers.
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every reader trains and no finding is an error.

        With a baseline, only new errors count.

        A verdict that is bad always has an error among its findings; a baseline recognizes it by
        that error.
        """
        trains = all(verdict.outcome == "trains" for verdict in self.verdicts)
        trains = trains and not no_verdict_text(self.evidence.shards)
        return not self.errors and (trains or (self.against_baseline and self.known > 0))

    @property
    def known(self) -> int:
        """The number of findings in the baseline."""
        return len(self.accepted)

    @property
    def errors(self) -> list[Finding]:
        """The findings of severity error."""
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def nothing_read(self) -> bool:
        """Whether no shard could be read; then there is no verdict."""
        return all(shard.error is not None for shard in self.evidence.shards)

    @property
    def exit_status(self) -> int:
        """0 if there is no error, otherwise 1.

        It is 2 if there is no error, but the user's own loader could not be judged.

        The command line reports if nothing could be read.
        """
        judged = [verdict for verdict in self.verdicts if verdict.outcome != "not judged"]
        if len(judged) < len(self.verdicts) and replace(self, verdicts=judged).ok:
            return 2
        if not self.ok:
            return 1
        return 2 if any(result.answer == "not judged" for result in self.checks) else 0

    @property
    def samples(self) -> int:
        """Distinct keys over all shards."""
        return self.evidence.samples

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dicts and lists.

        ``schema/report.schema.json`` describes them.
        """
        from .as_json import to_dict

        return to_dict(self)

    def __str__(self) -> str:
        from .report_text import render

        return render(self, width=100)

    def _repr_html_(self) -> str:
        # Needs numpy, and only notebooks call this.
        from .html import fragment

        return fragment(self)
