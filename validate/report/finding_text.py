"""Findings as text, grouped by rule.

Each rule comes with the locations of its first findings, and commands that fix them.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from wdsflow.text.words import how_many, location_text, plain_line, short_name

from ..finding import Finding
from .finding_groups import (
    SEVERITIES,
    FindingGroup,
    NextStep,
    group_findings,
    number_of,
    repairs_with_codes,
)
from .writer import Writer

if TYPE_CHECKING:
    from .report import Report

# Findings of one rule that are listed.
SHOWN = 5
# Commands of one rule.
_MOST_FIXES = 2
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


def show_findings(report: "Report", todo: list[NextStep], writer: Writer) -> None:
    """Print the findings, those of one rule together, with commands that fix them."""
    groups = group_findings(report.findings)
    if groups:
        writer.heading(f"Found: {totals(groups)}")
        shown: dict[str, str] = {}
        for same in groups:
            _group(same, writer)
            _fixes(same, todo, shown, writer)
    elif (report.verdicts or report.checks) and report.ok:
        writer.blank()
        writer.line("No problems found.")
    for line in ignored_lines(report):
        writer.line((line, "dim"), hang=2)


def totals(groups: list[FindingGroup]) -> str:
    """Return how many groups of findings of each severity there are: "1 error, 4 warnings"."""
    counts = Counter(same.severity for same in groups)
    texts = []
    for severity, name in SEVERITIES.items():
        if counts[severity]:
            texts.append(how_many(counts[severity], name))
    return ", ".join(texts)


def _group(same: FindingGroup, writer: Writer) -> None:
    from rich.text import Text

    name = Text(f"{SEVERITIES[same.severity]:<8}", style=f"bold {_COLOURS[same.severity]}")
    title = plain_line(same.title or same.findings[0].message)
    writer.line(name, (same.code, "bold"), "  ", title, hang=10)
    # With the name of the shard.
    located: list[tuple[Finding, str]] = []
    without_shard: list[Finding] = []
    for finding in same.findings:
        if finding.shard is None:
            without_shard.append(finding)
        else:
            located.append((finding, short_name(finding.shard)))
    most = SHOWN if same.severity != "info" else 1
    has_several = len({finding.shard for finding, _ in located}) > 1
    for finding, shard in located[:most]:
        _finding(finding, title, writer, shard if has_several else "")
    hidden = located[most:]
    if hidden:
        shards = {shard for _, shard in hidden}
        if len(shards) == len(hidden):
            more = how_many(len(shards), "more shard")
        else:
            more = f"{len(hidden):,} more"
        writer.line((f"and {more}", "dim"), indent=4)
    for finding in without_shard[:most]:
        _finding(finding, title, writer, "")


def _finding(finding: Finding, title: str, writer: Writer, shard: str) -> None:
    message = plain_line(finding.message)
    prefix = f"{shard}: " if shard and shard not in message else ""
    location = location_text(finding.shard, finding.key, finding.offset, message=prefix + message)
    if message == title:
        # It is the heading of the group.
        message = prefix.removesuffix(": ")
        prefix = ""
    remark = f" ({location})" if location else ""
    writer.line(prefix, message, (remark, "dim"), indent=4, hang=2)


def _fixes(same: FindingGroup, todo: list[NextStep], shown: dict[str, str], writer: Writer) -> None:
    """Print the commands that fix a group; for one that was shown before, only a reference."""
    if same.severity == "info":
        # Nothing needs to be done; the manual page explains what could be.
        return
    for repair, _ in repairs_with_codes(same.findings)[:_MOST_FIXES]:
        number = number_of(repair.command, todo)
        before = shown.get(repair.command) if number is None else f"{number} above"
        if before is not None:
            writer.line((f"fix: {before}", "dim"), indent=4)
            continue
        shown[repair.command] = f"as for {same.code}"
        note = plain_line(repair.note) or ("" if repair.safe else "data is changed or left out")
        kind = "fix" if repair.safe else "unsafe fix"
        heading = f"{kind} ({note}):" if note else f"{kind}:"
        writer.line((heading, "dim"), indent=4)
        writer.command(repair.command, indent=6)


def ignored_lines(report: "Report") -> Iterator[str]:
    """Yield a line for each ignored code, and one for the baseline.

    A line has the count of the code, and the reason.
    """
    counts = Counter((finding.code, reason) for finding, reason in report.ignored)
    for (code, reason), number in counts.items():
        yield f"ignored {code}, {how_many(number, 'finding')}: {plain_line(reason) or 'no reason given'}"
    if report.known:
        yield f"{how_many(report.known, 'known finding')} in the baseline not shown"
