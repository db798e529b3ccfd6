"""Findings as people read them: by rule, the worst first, and at most a few places each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..finding import Finding, Repair, Severity
from ..rules.commands import quote
from .words import short

_REPAIR, _OUTPUT, _INSPECT = "wdsflow repair ", " -o repaired", "wdsflow inspect "
_NAMED = 4  # shards that one command names

ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}
SEVERITIES: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


@dataclass(frozen=True, slots=True)
class Group:
    """All findings of one rule; ``severity`` is that of the worst."""

    code: str
    severity: Severity
    title: str
    findings: tuple[Finding, ...]  # the worst first


def group(findings: Sequence[Finding]) -> list[Group]:
    """Sort findings into groups: errors before warnings before notes, then as the rules came."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.code, []).append(finding)
    names = titles()
    groups = []
    for code, each in found.items():
        each.sort(key=lambda finding: ORDER[finding.severity])
        groups.append(Group(code, each[0].severity, names.get(code, ""), tuple(each)))
    return sorted(groups, key=lambda each: ORDER[each.severity])


def cures(findings: Sequence[Finding], urls: Sequence[str]) -> list[tuple[Repair, list[str]]]:
    """Return what cures findings, each repair with the codes of those that it cures.

    Repairs that differ in their shard alone become one: of these shards where they are few, else of ``urls``.
    """
    merged: dict[tuple[str, bool], tuple[list[Repair], list[str]]] = {}
    for finding in findings:
        if finding.repair is not None:
            parts = _parted(finding.repair.command)
            kind = finding.repair.command if parts is None else f"{parts[0]}\0{parts[2]}"
            repairs, codes = merged.setdefault((kind, finding.repair.safe), ([], []))
            repairs.append(finding.repair)
            if finding.code not in codes:
                codes.append(finding.code)
    return [(_merge(repairs, urls), codes) for repairs, codes in merged.values()]


def _parted(command: str) -> tuple[str, str, str] | None:
    """Part ``wdsflow repair SHARDS -o repaired OPTIONS`` before and behind the shards; None if it is no such command."""
    if command.startswith(_REPAIR) and command.count(_OUTPUT) == 1:
        shards, _, options = command.removeprefix(_REPAIR).partition(_OUTPUT)
        return _REPAIR, shards, _OUTPUT + options
    if command.startswith(_INSPECT) and " -" not in command:
        return _INSPECT, command.removeprefix(_INSPECT), ""
    return None


def _merge(repairs: Sequence[Repair], urls: Sequence[str]) -> Repair:
    parts = [_parted(command) for command in dict.fromkeys(repair.command for repair in repairs)]
    if len(parts) == 1 or parts[0] is None:
        return repairs[0]
    shards = [part[1] for part in parts if part is not None]
    named = shards if len(shards) <= _NAMED else [quote(url) for url in urls]
    return replace(repairs[0], command=parts[0][0] + " ".join(named) + parts[0][2])


def covers(one: str, other: str, urls: Sequence[str]) -> bool:
    """Tell whether one command does what the other does, to all shards of the other."""
    if one == other:
        return True
    first, second = _parted(one), _parted(other)
    if first is None or second is None or (first[0], first[2]) != (second[0], second[2]):
        return False
    everything = " ".join(quote(url) for url in urls)
    return first[1] == everything or set(second[1].split()) <= set(first[1].split())


def titles() -> dict[str, str]:
    """Return the title of each rule's manual page."""
    from ..explain import catalogue

    return {code: title for code, _, title in catalogue()}


def shards_of(group: Group) -> list[str]:
    """Return the names of the shards in which a rule found something, each once."""
    return list(dict.fromkeys(short(finding.shard) for finding in group.findings if finding.shard is not None))
