"""What a rule is: a code, a severity, a manual page, and a look at the evidence."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..consumers.base import Consumer
from ..evidence import Evidence, ShardEvidence
from ..finding import Finding, Repair, Severity
from ..verdict import Verdict

SHARDS_NAMED = 20  # a rule names this many shards one by one, and the rest in one finding


@dataclass(slots=True)
class Context:
    """Everything a rule may look at. ``arguments``, ``forecast`` and ``sidecars`` are None where not asked for."""

    evidence: Evidence
    consumers: list[Consumer]
    verdicts: list[Verdict]
    max_loss: float = 0.05
    urls: tuple[str, ...] = ()  # as the user wrote them
    arguments: Any = None  # arguments.Arguments
    forecast: Any = None  # forecast.Forecast
    sidecars: Any = None  # sidecars.Sidecars
    environment: dict[str, str] = field(default_factory=dict)  # distribution -> installed version

    def names(self) -> tuple[str, ...]:
        """Return the names of all consumers asked for."""
        return tuple(consumer.name for consumer in self.consumers)


class Rule(ABC):
    """One rule. The class docstring is its manual page: title line, then what, why it hurts, in the wild, cure."""

    code: ClassVar[str]
    severity: ClassVar[Severity]
    requires: ClassVar[tuple[str, ...]] = ()  # skipped where one of these already has a finding for the same cause

    @abstractmethod
    def check(self, context: Context) -> Iterable[Finding]:
        """Yield findings, the worst place first."""

    @classmethod
    def title(cls) -> str:
        """Return the first line of the manual page, without its full stop."""
        return (cls.__doc__ or "").strip().splitlines()[0].rstrip(".")


class TallyRule(Rule):
    """A rule that fires in each shard where one tally is not zero."""

    tally: ClassVar[str]

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        """Return the one-line message for a shard; ``detail`` is escaped already."""
        raise NotImplementedError

    def repair(self, shard: ShardEvidence) -> Repair | None:
        """Return the cure for a shard, if there is a ready one."""
        return None

    def hurts(self, context: Context) -> tuple[str, ...]:
        """Return the names of the consumers hurt; all that were asked for unless a rule knows better."""
        return context.names()

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding a shard for the first shards, then one for all others together."""
        raise NotImplementedError
