"""Findings grouped by rule, the most severe first, with at most a few places each."""

from collections.abc import Sequence
from dataclasses import dataclass

from wdsflow.text.words import short, unique

from ..finding import ORDER, Finding, Repair, Severity

SEVERITIES: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """All findings of one rule; ``severity`` is the highest of them."""

    code: str
    severity: Severity
    title: str
    findings: tuple[Finding, ...]  # the worst first


def group(findings: Sequence[Finding]) -> list[FindingGroup]:
    """Sort findings into groups: errors, warnings, then notes; within these, in the order of the rules."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.code, []).append(finding)
    names = titles()
    groups = []
    for code, each in found.items():
        each.sort(key=lambda finding: ORDER[finding.severity])
        groups.append(FindingGroup(code, each[0].severity, names.get(code, ""), tuple(each)))
    return sorted(groups, key=lambda each: ORDER[each.severity])


def fixes(findings: Sequence[Finding]) -> list[tuple[Repair, list[str]]]:
    """Return the repairs of findings, each with the codes that it fixes."""
    found: dict[str, tuple[Repair, list[str]]] = {}
    for finding in findings:
        if finding.repair is not None:
            codes = found.setdefault(finding.repair.command, (finding.repair, []))[1]
            if finding.code not in codes:
                codes.append(finding.code)
    return list(found.values())


def titles() -> dict[str, str]:
    """Return the title of each rule's manual page."""
    from ..rule_pages import catalogue

    return {code: title for code, _, title in catalogue()}


def shards_of(group: FindingGroup) -> list[str]:
    """Return the names of the shards in which a rule found something, each once."""
    return unique(short(finding.shard) for finding in group.findings if finding.shard is not None)
