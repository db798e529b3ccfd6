"""What validation hands back."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from wdsflow.scan.evidence import Evidence, Level

from ..finding import Advice, Finding
from ..forecast.forecast import Forecast
from ..verdicts.verdict import Verdict
from ..verdicts.wording import no_verdict_text


@dataclass(frozen=True, slots=True)
class Results:
    """The verdict for each reader, the findings behind it, and what to do: what the formats of the report show."""

    urls: Sequence[str]  # as written
    evidence: Evidence
    verdicts: Sequence[Verdict] = ()
    findings: list[Finding] = field(default_factory=list)
    ignored: list[tuple[Finding, str]] = field(default_factory=list)  # with the reason for which it is accepted
    known: int = 0  # findings that a baseline holds back
    against_baseline: bool = False  # only what the baseline does not know fails
    forecasts: Sequence[Forecast] = ()
    advice: Sequence[Advice] = ()
    level: Level = "headers"
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every reader trains and no finding is an error; with a baseline, whether no new one is.

        A verdict other than "trains" always has an error among its findings, so that a baseline knows it by that.
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
        """Whether not one shard could be read, so that there is no verdict."""
        return all(shard.error is not None for shard in self.evidence.shards)

    @property
    def exit_status(self) -> int:
        """0 where all is well, else 1. That nothing could be read is for the command line to tell."""
        return 0 if self.ok else 1

    @property
    def samples(self) -> int:
        """Distinct keys over all shards."""
        return self.evidence.samples
