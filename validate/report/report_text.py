"""The report as text."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wdsflow.text.words import duration, how_many, plain_line, size, unique

from ..finding import ORDER, Finding
from ..forecast.forecast_text import sentences
from ..tracing.trace_table import table
from ..verdicts.verdict import Verdict
from ..verdicts.wording import no_verdict_text
from .finding_groups import group_findings, next_steps
from .finding_text import SHOWN, show_findings, totals
from .verdict_text import consequence, funnel_text, summary_and_reasons
from .writer import Writer

if TYPE_CHECKING:
    from rich.console import Console

    from .report import Report

# All others are red.
_COLOURS = {"trains": "green", "may train": "green"}
_ANSWER_COLOURS = {"right": "bold green", "not judged": "bold yellow"}


def render(report: "Report", width: int = 100) -> str:
    """Return the report as text without colour.

    Lines have at most ``width`` characters, but commands are not wrapped.
    """
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=width,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,
        legacy_windows=False,
    )
    show(report, console)
    return buffer.getvalue()


def show(report: "Report", console: "Console") -> None:
    """Print the report to a console."""
    writer = Writer(console)
    why_no_verdict = no_verdict_text(report.evidence.shards)
    if why_no_verdict:
        writer.command(why_no_verdict)
    _verdicts(report, writer)
    _checks(report, writer)
    todo = next_steps(report)
    if todo:
        writer.heading("What to do")
    for number, step in enumerate(todo, 1):
        writer.line(f"{number}. {step.line}", indent=2, hang=3)
        writer.command(step.command, indent=7)
    show_findings(report, todo, writer)
    for forecast in report.forecasts:
        writer.heading("Forecast")
        for line in sentences(forecast):
            stripped = line.lstrip(" ")
            writer.line(plain_line(stripped), indent=2 + len(line) - len(stripped), hang=2)
    writer.blank()
    for note in notes(report):
        writer.line("Note: ", plain_line(note), hang=6)
    writer.line((closing_line(report), "dim"), hang=2)
    if report.findings:
        writer.line(("What a code means and how to fix it:", "dim"))
        writer.command(f"wdsflow explain {_most_telling(report.findings).code}", indent=2)


def show_summary(report: "Report", console: "Console") -> None:
    """Print only the verdicts and the totals, if the report itself goes to a file."""
    writer = Writer(console)
    why_no_verdict = no_verdict_text(report.evidence.shards)
    if why_no_verdict:
        writer.command(why_no_verdict)
    for verdict in report.verdicts:
        _verdict_line(verdict, writer)
    _checks(report, writer)
    if report.findings:
        writer.line("Found: ", totals(group_findings(report.findings)))
    writer.line((closing_line(report), "dim"), hang=2)


def _verdicts(report: "Report", writer: Writer) -> None:
    for number, verdict in enumerate(report.verdicts):
        if number:
            writer.blank()
        reasons = _verdict_line(verdict, writer)
        for reason in reasons[:SHOWN]:
            writer.line(reason, indent=4, hang=2)
        if len(reasons) > SHOWN:
            writer.line(f"and {how_many(len(reasons) - SHOWN, 'more reason')}", indent=4)
        meaning = consequence(verdict)
        if meaning:
            writer.line((meaning, "italic"), indent=4)
        if verdict.funnel is not None:
            writer.line((funnel_text(verdict, verdict.funnel), "dim"), indent=4, hang=2)
        if verdict.run is not None and verdict.run.stages:
            for row in table(verdict.run.stages, writer.console.width - 4):
                writer.row(row.rstrip(), indent=4, style="dim")
    all_train = all(verdict.outcome == "trains" for verdict in report.verdicts)
    if report.errors and report.verdicts and all_train:
        errors = how_many(len(group_findings(report.errors)), "error")
        writer.line((f"but check {errors} below (exit status 1)", "red"), indent=4)


def _verdict_line(verdict: Verdict, writer: Writer) -> list[str]:
    colour = f"bold {_COLOURS.get(verdict.word, 'red')}"
    summary, reasons = summary_and_reasons(verdict)
    writer.line(
        (plain_line(verdict.title), "bold"),
        "  ",
        (verdict.word.upper(), colour),
        "  ",
        summary,
        hang=4,
    )
    return reasons


def _checks(report: "Report", writer: Writer) -> None:
    """Print a line for each question about the user's loader; its faults are among the findings."""
    for result in report.checks:
        colour = _ANSWER_COLOURS.get(result.answer, "bold red")
        codes = ", ".join(sorted({fault.code for fault in result.faults}))
        text = f"see {codes}" if codes else result.summary
        answer = result.answer.upper()
        writer.line((result.check, "bold"), "  ", (answer, colour), "  ", plain_line(text), hang=4)


def _most_telling(findings: Sequence[Finding]) -> Finding:
    """Return the finding of the worst severity by which the most samples are lost.

    It is likely a cause, not a consequence.
    """
    return min(findings, key=lambda finding: (ORDER[finding.severity], -sum(finding.lost.values())))


def notes(report: "Report") -> list[str]:
    """Return notes on the verdict: limits of the level, and assumptions."""
    notes_of_all = list(report.notes)
    notes_of_all += [verdict.note for verdict in report.verdicts if verdict.note]
    for result in report.checks:
        notes_of_all += result.notes
    return unique(notes_of_all)


def closing_line(report: "Report") -> str:
    """Return how much was read, and how long it took."""
    shards = report.evidence.shards
    unread = sum(1 for shard in shards if shard.error is not None)
    shards_text = how_many(len(shards), "shard")
    if unread:
        shards_text += f" ({unread:,} unreadable)"
    read = sum(shard.bytes_read for shard in shards)
    stored = sum(shard.size or 0 for shard in shards)
    if read < stored:
        read_text = f"read {size(read)} of {size(stored)}"
    else:
        read_text = f"read all {size(stored or read)}"
    samples = how_many(report.samples, "sample")
    level = f"level {report.level}"
    return ", ".join([shards_text, samples, read_text, level, duration(report.seconds)])
