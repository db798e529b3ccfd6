"""Findings as people read them: by rule, the worst first, and at most a few places each."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..finding import Finding, Repair, Severity
from .words import short

ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}
SEVERITIES: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


@dataclass(frozen=True, slots=True)
class Group:
    """All findings of one rule at one severity."""

    code: str
    severity: Severity
    title: str
    findings: tuple[Finding, ...]

    @property
    def repairs(self) -> list[Repair]:
        """The distinct repairs, in order."""
        return list(dict.fromkeys(finding.repair for finding in self.findings if finding.repair is not None))


def group(findings: Sequence[Finding]) -> list[Group]:
    """Sort findings into groups: errors before warnings before notes, then as the rules came."""
    found: dict[tuple[Severity, str], list[Finding]] = {}
    for finding in findings:
        found.setdefault((finding.severity, finding.code), []).append(finding)
    names = titles()
    groups = [Group(code, severity, names.get(code, ""), tuple(each)) for (severity, code), each in found.items()]
    return sorted(groups, key=lambda each: ORDER[each.severity])


def titles() -> dict[str, str]:
    """Return the title of each rule's manual page."""
    from ..explain import catalogue

    return {code: title for code, _, title in catalogue()}


def shards_of(group: Group) -> list[str]:
    """Return the names of the shards in which a rule found something, each once."""
    return list(dict.fromkeys(short(finding.shard) for finding in group.findings if finding.shard is not None))
