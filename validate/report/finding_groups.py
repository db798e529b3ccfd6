"""Findings grouped by rule, and what to do, the most effective first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wdsflow.text.words import enumeration, plain_line, short_name, unique

from ..catalog.rule_catalog import rule_list
from ..finding import ORDER, Advice, Finding, Repair, Severity, advice_text

if TYPE_CHECKING:
    from .report import Report

# Also the levels of SARIF.
SEVERITIES: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """All findings of one rule; ``severity`` is the highest of them."""

    code: str
    severity: Severity
    title: str
    # The worst first.
    findings: tuple[Finding, ...]


def group_findings(findings: Sequence[Finding]) -> list[FindingGroup]:
    """Sort findings into groups: errors, warnings, then notes.

    Within these, they are in the order of the rules.
    """
    by_code: dict[str, list[Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, []).append(finding)
    names = rule_titles()
    groups = []
    for code, of_rule in by_code.items():
        worst_first = sorted(of_rule, key=lambda finding: ORDER[finding.severity])
        severity = worst_first[0].severity
        groups.append(FindingGroup(code, severity, names.get(code, ""), tuple(worst_first)))
    return sorted(groups, key=lambda group: ORDER[group.severity])


def repairs_with_codes(findings: Sequence[Finding]) -> list[tuple[Repair, list[str]]]:
    """Return the repairs of findings, each with the codes that it fixes."""
    by_command: dict[str, tuple[Repair, list[str]]] = {}
    for finding in findings:
        if finding.repair is None:
            continue
        _, codes = by_command.setdefault(finding.repair.command, (finding.repair, []))
        if finding.code not in codes:
            codes.append(finding.code)
    return list(by_command.values())


def rule_titles() -> dict[str, str]:
    """Return the title of each rule's manual page."""
    return {code: title for code, _, title in rule_list()}


def shards_of(group: FindingGroup) -> list[str]:
    """Return the names of the shards in which a rule found something, each once."""
    return unique(
        short_name(finding.shard) for finding in group.findings if finding.shard is not None
    )


@dataclass(frozen=True, slots=True)
class NextStep:
    """One step. ``text`` is harmless to print; ``command`` is ready to paste, and may be empty."""

    text: str
    command: str
    safe: bool
    # Of the command.
    language: str = "shell"

    @property
    def line(self) -> str:
        """The text, and whether care is needed."""
        return self.text if self.safe else f"{self.text}; unsafe: data is changed or left out"


def next_steps(report: "Report") -> list[NextStep]:
    """Return the steps; a step for several readers appears once, with its gain for each of them."""
    groups: dict[tuple[str, str], list[Advice]] = {}
    for advice in report.advice:
        groups.setdefault((advice.action, advice.command), []).append(advice)
    next_steps = []
    for same in groups.values():
        first = same[0]
        text = plain_line(advice_text(same))
        next_steps.append(NextStep(text, first.command, first.safe, first.language))
    for repair, codes in repairs_with_codes(report.errors):
        if number_of(repair.command, next_steps) is None:
            next_steps.append(repair_step(repair, codes))
    return next_steps


def repair_step(repair: Repair, codes: Sequence[str]) -> NextStep:
    """Return the step that fixes these codes by a repair."""
    names = rule_titles()
    text = f"fix {enumeration(codes)}"
    if len(codes) == 1 and codes[0] in names:
        text += f" ({names[codes[0]]})"
    if repair.note:
        text += f": {repair.note}"
    return NextStep(plain_line(text), repair.command, repair.safe)


def number_of(command: str, steps: Sequence[NextStep]) -> int | None:
    """Return the number, counted from 1, of the step that is this command.

    Returns None if no step is.
    """
    for number, step in enumerate(steps, 1):
        if step.command == command:
            return number
    return None
