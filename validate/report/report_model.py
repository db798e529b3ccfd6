"""The result of validation."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from wdsflow.scan.evidence import Evidence, Level

from ..finding import Advice, Finding
from ..forecast.forecast import Forecast
from ..verdicts.verdict import Verdict
from ..verdicts.wording import no_verdict_text


@dataclass(frozen=True, slots=True)
class Results:
    """The verdict for each reader, its findings, and what to do: the data for all formats of the report."""

    urls: Sequence[str]  # as written
    evidence: Evidence
    verdicts: Sequence[Verdict] = ()
    findings: list[Finding] = field(default_factory=list)
    ignored: list[tuple[Finding, str]] = field(default_factory=list)  # with the reason why they are accepted
    known: int = 0  # findings in the baseline
    against_baseline: bool = False  # only findings that are not in the baseline fail
    forecasts: Sequence[Forecast] = ()
    advice: Sequence[Advice] = ()
    level: Level = "headers"
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    accepted: Sequence[Finding] = ()  # the findings in the baseline

    @property
    def ok(self) -> bool:
        """Whether every reader trains and no finding is an error; with a baseline, whether no new one is.

        A verdict other than "trains" always has an error among its findings; a baseline recognizes it by that error.
        """
        trains = all(verdict.outcome == "trains" for verdict in self.verdicts) and not no_verdict_text(
            self.evidence.shards
        )
        return not self.errors and (trains or (self.against_baseline and self.known > 0))

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
        """0 if there is no error, otherwise 1. The command line reports if nothing could be read."""
        return 0 if self.ok else 1

    @property
    def samples(self) -> int:
        """Distinct keys over all shards."""
        return self.evidence.samples
