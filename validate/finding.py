"""One thing that is wrong, where, for whom, and what cures it."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Repair:
    """A way to cure a finding. ``command`` can be pasted into a shell; ``safe`` means that no data is lost by it."""

    command: str
    safe: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about the data that hurts some consumer. Reported, never raised."""

    code: str
    severity: Severity
    message: str  # place, count, consequence: one line, plain text, escaped already
    shard: str | None = None
    key: str | None = None
    offset: int | None = None
    count: int = 1
    rate: float | None = None  # count / samples where that makes sense
    consumers: tuple[str, ...] = ()
    repair: Repair | None = None
