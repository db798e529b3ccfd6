"""The report for people: the verdict first, then what to do, then what was found.

Everything that comes from data passes through ``escape`` and into ``rich.text.Text``, never through markup.
"""

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..finding import Finding
from ..verdict import Outcome, Verdict
from .grouping import SEVERITIES, Group, group
from .model import Report
from .words import count, duration, place, plain, short, size, unique
from .writer import Writer

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 5  # places of one rule that are shown one by one
_COLOURS = {"trains": "green", "loses": "red", "stalls": "red", "crashes": "red"}
_SEVERITY_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}
MEANS: dict[Outcome, str] = {
    "trains": "",
    "loses": "it runs, but the loss is silent",
    "stalls": "training would wait for ever, without an error",
    "crashes": "an exception would end the run",
}


def render(report: Report, width: int = 100) -> str:
    """Return the report as text without colour, for lines of at most ``width`` characters (commands are not wrapped)."""
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer, width=width, color_system=None, force_terminal=False, force_jupyter=False, legacy_windows=False
    )
    show(report, console)
    return buffer.getvalue()


def show(report: Report, console: "Console") -> None:
    """Print the report to a console."""
    writer = Writer(console)
    _verdicts(report, writer)
    _advice(report, writer)
    _findings(report, writer)
    _forecasts(report, writer)
    _closing(report, writer)


def show_summary(report: Report, console: "Console") -> None:
    """Print the verdicts and the totals only, for when the report itself goes to a file."""
    writer = Writer(console)
    for verdict in report.verdicts:
        _verdict_line(verdict, writer)
    groups = group(report.findings)
    if groups:
        writer.line("Found: ", _totals(groups))
    writer.line((closing_line(report), "dim"), hang=2)


def _verdicts(report: Report, writer: Writer) -> None:
    for number, verdict in enumerate(report.verdicts):
        if number:
            writer.blank()
        reasons = _verdict_line(verdict, writer)
        for reason in reasons[:SHOWN]:
            writer.line(reason, indent=4, hang=2)
        if len(reasons) > SHOWN:
            writer.line(f"and {count(len(reasons) - SHOWN, 'more reason')}", indent=4)
        if MEANS[verdict.outcome]:
            writer.line((MEANS[verdict.outcome], "italic"), indent=4)
        writer.line((_funnel(verdict), "dim"), indent=4, hang=2)


def _verdict_line(verdict: Verdict, writer: Writer) -> list[str]:
    colour = f"bold {_COLOURS[verdict.outcome]}"
    summary, reasons = said(verdict)
    writer.line((plain(verdict.title), "bold"), "  ", (verdict.outcome.upper(), colour), "  ", summary, hang=4)
    return reasons


def said(verdict: Verdict) -> tuple[str, list[str]]:
    """Return what stands behind the outcome, and the reasons that need lines of their own."""
    most = "" if verdict.exact or not verdict.usable else "up to "
    text = f"{most}{verdict.usable:,} of {count(verdict.samples, 'sample')} reach a batch"
    reasons = [plain(reason.message) for reason in verdict.reasons]
    if len(reasons) == 1 and verdict.reasons[0].count >= verdict.samples - verdict.usable:
        # "12 of 12 samples: no caption field" says the count again.
        return f"{text}: {reasons[0].partition(' samples: ')[2] or reasons[0]}", []
    return text, reasons


def _funnel(verdict: Verdict) -> str:
    funnel = verdict.funnel
    steps = (
        (funnel.members, "members"),
        (funnel.samples, "samples"),
        (funnel.complete, "with image and caption" if not funnel.complete else "image + caption"),
        (funnel.decoded, "decode"),
        (funnel.usable, "in batches"),
    )
    last = next((index for index, (number, _) in enumerate(steps) if not number), len(steps))
    return " -> ".join(f"{number:,} {name}" for number, name in steps[: last + 1])


def _advice(report: Report, writer: Writer) -> None:
    if not report.advice:
        return
    writer.heading("What to do")
    several = len(report.verdicts) > 1
    for number, each in enumerate(report.advice, 1):
        gain = f" (+{count(each.regains, 'sample')})" if each.regains else ""
        whom = f" [{each.consumer}]" if several else ""
        care = "" if each.safe else "; this changes data, keep a copy"
        writer.line(f"{number}. {plain(each.text)}{gain}{whom}{care}", indent=2, hang=3)
        writer.command(each.command, indent=5)


def _findings(report: Report, writer: Writer) -> None:
    groups = group(report.findings)
    if groups:
        writer.heading(f"Found: {_totals(groups)}")
        for each in groups:
            _group(each, writer)
    elif report.verdicts and report.ok:
        writer.blank()
        writer.line("Nothing found that would hurt.")
    for line in ignored_lines(report):
        writer.line((line, "dim"), hang=2)


def _totals(groups: list[Group]) -> str:
    totals = {severity: sum(1 for each in groups if each.severity == severity) for severity in SEVERITIES}
    return ", ".join(count(totals[severity], name) for severity, name in SEVERITIES.items() if totals[severity])


def _group(each: Group, writer: Writer) -> None:
    from rich.text import Text

    name = Text(f"{SEVERITIES[each.severity]:<8}", style=f"bold {_SEVERITY_COLOURS[each.severity]}")
    title = each.title or plain(each.findings[0].message)
    writer.line(name, (each.code, "bold"), "  ", plain(title), hang=10)
    placed = [finding for finding in each.findings if finding.shard is not None]
    others = [finding for finding in each.findings if finding.shard is None]
    for finding in placed[:SHOWN]:
        _finding(finding, title, writer)
    hidden = placed[SHOWN:]
    if hidden:
        shards = unique(short(finding.shard) for finding in hidden if finding.shard is not None)
        what = count(len(shards), "more shard") if len(shards) == len(hidden) else f"{len(hidden):,} more"
        writer.line((f"and {what}", "dim"), indent=10)
    for finding in others[:SHOWN]:
        _finding(finding, title, writer)
    for repair in each.repairs[:2]:
        care = "" if repair.safe else "; unsafe: data is changed or left out"
        note = f" ({plain(repair.note)}{care})" if repair.note or care else ""
        writer.line(("cure" + note.replace("(; ", "(") + ":", "dim"), indent=10)
        writer.command(repair.command, indent=12)


def _finding(finding: Finding, title: str, writer: Writer) -> None:
    message = plain(finding.message)
    where = place(finding.shard, finding.key, finding.offset, said=message)
    if message != title:
        writer.line(message, (f"  ({where})" if where else "", "dim"), indent=10, hang=2)
    elif where:
        writer.line((where, "dim"), indent=10, hang=2)


def ignored_lines(report: Report) -> Iterator[str]:
    """Yield a line for each ignored code: how often it was found, and why it is accepted; and one for the baseline."""
    found: dict[tuple[str, str], int] = {}
    for finding, reason in report.ignored:
        found[finding.code, reason] = found.get((finding.code, reason), 0) + 1
    for (code, reason), number in found.items():
        yield f"ignored {code}, {count(number, 'finding')}: {plain(reason) or 'no reason given'}"
    if report.known:
        yield f"{count(report.known, 'known finding')} in the baseline not shown"


def _forecasts(report: Report, writer: Writer) -> None:
    for each in report.forecasts:
        writer.heading("Forecast")
        for line in each.lines():
            stripped = line.lstrip(" ")
            writer.line(plain(stripped), indent=2 + len(line) - len(stripped), hang=2)


def _closing(report: Report, writer: Writer) -> None:
    writer.blank()
    for note in notes(report):
        writer.line("Note: ", plain(note), hang=6)
    writer.line((closing_line(report), "dim"), hang=2)
    codes = unique(finding.code for finding in report.findings)
    if codes:
        writer.line(("What a code means and how to cure it: wdsflow explain " + codes[0], "dim"), hang=2)


def notes(report: Report) -> list[str]:
    """Return what the reader should bear in mind: what the level could not see, what was assumed."""
    return unique([*report.notes, *(verdict.note for verdict in report.verdicts if verdict.note)])


def closing_line(report: Report) -> str:
    """Say how much was looked at, and how long it took."""
    shards = report.evidence.shards
    unread = sum(1 for shard in shards if shard.error is not None)
    read, stored = sum(shard.bytes_read for shard in shards), sum(shard.size or 0 for shard in shards)
    parts = (
        count(len(shards), "shard") + (f" ({unread:,} unreadable)" if unread else ""),
        count(report.samples, "sample"),
        f"read {size(read)}" + (f" of {size(stored)}" if stored else ""),
        f"level {report.level}",
        duration(report.seconds),
    )
    return ", ".join(parts)
