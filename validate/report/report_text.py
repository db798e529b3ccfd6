"""The report as text: lines wrapped with a hanging indent, except commands, which are to be copied."""

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wdsflow.text.words import command_lines, duration, how_many, place, plain, short, size, unique

from ..finding import ORDER, Finding
from ..forecast.forecast import sentences
from ..tracing.trace_table import table
from ..verdicts.pipeline_run import PipelineRun
from ..verdicts.verdict import Funnel, Outcome, Verdict
from ..verdicts.wording import lack_text, no_verdict_text
from .finding_groups import SEVERITIES, FindingGroup, NextStep, fixes, group, number_of, steps

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from .report import Report


class Writer:
    """Prints lines with a hanging indent, and without trailing blanks."""

    def __init__(self, console: "Console") -> None:
        self.console = console

    def blank(self) -> None:
        """Print an empty line."""
        self.console.print()

    def line(self, *parts: "str | tuple[str, str] | Text", indent: int = 0, hang: int = 0) -> None:
        """Print parts, each a text or (text, style), wrapped; indent lines after the first by ``hang`` more."""
        from rich.text import Text

        body = Text.assemble(*parts)
        width = max(self.console.width - indent, 20)
        first = (body.wrap(self.console, width) or [Text()])[0]
        rest = body[len(first.plain) :] if len(first.plain) < len(body.plain) else Text()
        rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :] if rest.plain.strip() else Text()
        lines = [first, *(rest.wrap(self.console, max(width - hang, 20)) if rest.plain else [])]
        for number, each in enumerate(lines):
            each.rstrip()
            pad = " " * (indent + (hang if number else 0))
            self.console.print(Text(pad) + each if each.plain else Text(), soft_wrap=True)

    def command(self, command: str, indent: int = 0) -> None:
        """Print a command, or a line that ends in one, ready to paste: never wrapped, nothing around it."""
        from rich.text import Text

        for line in command_lines(command):
            self.console.print(Text(" " * indent + line if line else "", style="bold"), soft_wrap=True)

    def row(self, text: str, indent: int = 0, style: str = "") -> None:
        """Print a row of a table, cut at the edge to keep the columns aligned."""
        from rich.text import Text

        self.console.print(Text(" " * indent + text, style=style), no_wrap=True, overflow="ellipsis", crop=True)

    def heading(self, text: str) -> None:
        """Print a heading after an empty line."""
        self.blank()
        self.line((text, "bold underline"))


# Places of one rule that are listed.
SHOWN = 5
# All others are red.
_COLOURS = {"trains": "green", "may train": "green"}
_SEVERITY_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}
_CONSEQUENCES: dict[Outcome, str] = {
    "trains": "",
    "loses": "it runs, but the loss is silent",
    "stalls": "training would hang, without an error",
    "crashes": "an exception would end the run",
    "refused": "training does not start",
    "not judged": "",
}


def render(report: "Report", width: int = 100) -> str:
    """Return the report as text without colour, for lines of at most ``width`` characters (commands are not wrapped)."""
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer, width=width, color_system=None, force_terminal=False, force_jupyter=False, legacy_windows=False
    )
    show(report, console)
    return buffer.getvalue()


def show(report: "Report", console: "Console") -> None:
    """Print the report to a console."""
    writer = Writer(console)
    if why := no_verdict_text(report.evidence.shards):
        writer.command(why)
    _verdicts(report, writer)
    _checks(report, writer)
    todo = steps(report)
    if todo:
        writer.heading("What to do")
    for number, step in enumerate(todo, 1):
        writer.line(f"{number}. {step.line}", indent=2, hang=3)
        writer.command(step.command, indent=7)
    _findings(report, todo, writer)
    for each in report.forecasts:
        writer.heading("Forecast")
        for line in sentences(each):
            stripped = line.lstrip(" ")
            writer.line(plain(stripped), indent=2 + len(line) - len(stripped), hang=2)
    writer.blank()
    for note in notes(report):
        writer.line("Note: ", plain(note), hang=6)
    writer.line((closing_line(report), "dim"), hang=2)
    if report.findings:
        writer.line(("What a code means and how to fix it:", "dim"))
        writer.command(f"wdsflow explain {_most_telling(report.findings).code}", indent=2)


def _most_telling(findings: Sequence[Finding]) -> Finding:
    """Return the finding of the worst severity by which the most samples are lost: a cause, not a consequence."""
    return min(findings, key=lambda each: (ORDER[each.severity], -sum(each.lost.values())))


def show_summary(report: "Report", console: "Console") -> None:
    """Print only the verdicts and the totals, if the report itself goes to a file."""
    writer = Writer(console)
    if why := no_verdict_text(report.evidence.shards):
        writer.command(why)
    for verdict in report.verdicts:
        _verdict_line(verdict, writer)
    _checks(report, writer)
    if report.findings:
        writer.line("Found: ", totals(group(report.findings)))
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
        if meaning := consequence(verdict):
            writer.line((meaning, "italic"), indent=4)
        if verdict.funnel is not None:
            writer.line((_funnel(verdict, verdict.funnel), "dim"), indent=4, hang=2)
        if verdict.run is not None and verdict.run.stages:
            for row in table(verdict.run.stages, writer.console.width - 4):
                writer.row(row.rstrip(), indent=4, style="dim")
    if report.errors and report.verdicts and all(verdict.outcome == "trains" for verdict in report.verdicts):
        found = how_many(len(group(report.errors)), "error")
        writer.line((f"but check {found} below (exit status 1)", "red"), indent=4)


def _verdict_line(verdict: Verdict, writer: Writer) -> list[str]:
    colour = f"bold {_COLOURS.get(verdict.word, 'red')}"
    summary, reasons = summary_and_reasons(verdict)
    writer.line((plain(verdict.title), "bold"), "  ", (verdict.word.upper(), colour), "  ", summary, hang=4)
    return reasons


def _checks(report: "Report", writer: Writer) -> None:
    """Print a line for each question about the user's loader; its faults are among the findings."""
    for each in report.checks:
        colour = {"right": "bold green", "not judged": "bold yellow"}.get(each.answer, "bold red")
        codes = ", ".join(sorted({fault.code for fault in each.faults}))
        text = f"see {codes}" if codes else each.summary
        writer.line((each.check, "bold"), "  ", (each.answer.upper(), colour), "  ", plain(text), hang=4)


def consequence(verdict: Verdict) -> str:
    """Return what an outcome means for the run; "" if nothing is wrong."""
    if verdict.outcome == "loses" and verdict.reports_losses:
        return "it runs, and reports what it leaves out"
    # Its handlers may well warn.
    if verdict.run is not None and verdict.outcome == "loses":
        return "it runs, on fewer samples" if verdict.usable else "it runs, without a sample"
    if verdict.run is not None and verdict.outcome in ("crashes", "stalls", "not judged"):
        # The first reason says what happened.
        return ""
    return _CONSEQUENCES[verdict.outcome]


def summary_and_reasons(verdict: Verdict) -> tuple[str, list[str]]:
    """Return the numbers of the outcome, and the reasons that need separate lines."""
    if verdict.run is not None:
        return _observed(verdict, verdict.run)
    if verdict.outcome == "refused":
        why, *others = (plain(reason.message) for reason in verdict.reasons)
        return why, others
    most = "" if verdict.exact or not verdict.usable else "up to "
    if verdict.least is not None:
        most = f"{verdict.least:,} to "
    text = f"{most}{verdict.usable:,} of {how_many(verdict.samples, 'sample')} {'reach a batch' if verdict.reaches_batches else 'are usable'}"
    reasons = [plain(reason.message) for reason in verdict.reasons]
    counted = [each for each in verdict.reasons if each.count]
    if verdict.usable == verdict.samples and verdict.outcome in ("trains", "loses") and not counted:
        # Only junk is left out, and junk is not counted as samples.
        return text, []
    if len(reasons) == 1 and verdict.reasons[0].count >= verdict.samples - verdict.usable:
        # "12 of 12 samples: no caption field" repeats the count.
        only = verdict.reasons[0]
        lack = lack_text(only.slug, only.count) if verdict.usable else ""
        return (f"{text} ({lack})" if lack else f"{text}: {reasons[0].partition(' samples: ')[2] or reasons[0]}"), []
    return text, reasons


def _observed(verdict: Verdict, run: PipelineRun) -> tuple[str, list[str]]:
    """Return the numbers of a run, which are about what it read, and the reasons."""
    reasons = [plain(reason.message) for reason in verdict.reasons]
    fate = "reach a batch" if verdict.outcome in ("trains", "loses") else "came out"
    if verdict.outcome == "not judged":
        return f"{how_many(run.delivered, 'element')} came out ({run.scope} opened)", reasons
    if run.read is None and not run.whole and verdict.outcome not in ("trains", "loses"):
        return f"{how_many(run.delivered, 'sample')} came out ({run.scope} opened)", reasons
    samples = how_many(verdict.samples, "sample")
    if not run.whole or (run.repeated and verdict.samples == run.read):
        samples = f"the {samples} read ({run.scope})"
    usable = f"{verdict.usable:,}"
    if verdict.least is not None:
        # Without keys, content shows that some samples came out, and how many others may have.
        usable = f"{verdict.least:,} to {usable}" if verdict.least else f"up to {usable}"
    return f"{usable} of {samples} {fate}", reasons


def _funnel(verdict: Verdict, funnel: Funnel) -> str:
    one = funnel.samples == 1
    grouped = "" if funnel.samples == verdict.samples else " in the reader's grouping"
    steps = [
        (funnel.members, "member" if funnel.members == 1 else "members"),
        (funnel.samples, f"{'sample' if one else 'samples'}{grouped}"),
    ]
    steps.append((funnel.complete, f"{'image +' if funnel.complete else 'with image and'} {verdict.pairs_with}"))
    steps.append((funnel.decoded, "decode"))
    steps.append((funnel.usable, "in batches" if verdict.reaches_batches else "usable"))
    last = next((index for index, (number, _) in enumerate(steps) if not number), len(steps))
    texts = [f"{number:,} {name}" for number, name in steps[: last + 1]]
    if verdict.least is not None:
        texts[-1] = f"up to {texts[-1]}"
    return " -> ".join(texts)


def _findings(report: "Report", todo: list[NextStep], writer: Writer) -> None:
    groups = group(report.findings)
    if groups:
        writer.heading(f"Found: {totals(groups)}")
        shown: dict[str, str] = {}
        for each in groups:
            _group(each, writer)
            _fixes(each, todo, shown, writer)
    elif (report.verdicts or report.checks) and report.ok:
        writer.blank()
        writer.line("No problems found.")
    for line in ignored_lines(report):
        writer.line((line, "dim"), hang=2)


def totals(groups: list[FindingGroup]) -> str:
    """Return how many groups of findings of each severity there are: "1 error, 4 warnings"."""
    counts = {severity: sum(1 for each in groups if each.severity == severity) for severity in SEVERITIES}
    return ", ".join(how_many(counts[severity], name) for severity, name in SEVERITIES.items() if counts[severity])


def _group(each: FindingGroup, writer: Writer) -> None:
    from rich.text import Text

    name = Text(f"{SEVERITIES[each.severity]:<8}", style=f"bold {_SEVERITY_COLOURS[each.severity]}")
    title = plain(each.title or each.findings[0].message)
    writer.line(name, (each.code, "bold"), "  ", title, hang=10)
    placed = [(finding, finding.shard) for finding in each.findings if finding.shard is not None]
    others = [finding for finding in each.findings if finding.shard is None]
    most = SHOWN if each.severity != "info" else 1
    several = len({shard for _, shard in placed}) > 1
    for finding, shard in placed[:most]:
        _finding(finding, title, writer, short(shard) if several else "")
    if hidden := placed[most:]:
        shards = {short(shard) for _, shard in hidden}
        what = how_many(len(shards), "more shard") if len(shards) == len(hidden) else f"{len(hidden):,} more"
        writer.line((f"and {what}", "dim"), indent=4)
    for finding in others[:most]:
        _finding(finding, title, writer, "")


def _finding(finding: Finding, title: str, writer: Writer, shard: str) -> None:
    message = plain(finding.message)
    prefix = f"{shard}: " if shard and shard not in message else ""
    where = place(finding.shard, finding.key, finding.offset, said=prefix + message)
    if message == title:
        prefix, message = "", prefix.removesuffix(": ")
    writer.line(prefix, message, (f" ({where})" if where else "", "dim"), indent=4, hang=2)


def _fixes(each: FindingGroup, todo: list[NextStep], shown: dict[str, str], writer: Writer) -> None:
    """Print the commands that fix a group; for one that was shown before, only a reference."""
    # Nothing needs to be done; the manual page explains what could be.
    if each.severity == "info":
        return
    for repair, _ in fixes(each.findings)[:2]:
        number = number_of(repair.command, todo)
        before = shown.get(repair.command) if number is None else f"{number} above"
        if before is not None:
            writer.line((f"fix: {before}", "dim"), indent=4)
            continue
        shown[repair.command] = f"as for {each.code}"
        note = plain(repair.note) or ("" if repair.safe else "data is changed or left out")
        kind = "fix" if repair.safe else "unsafe fix"
        writer.line((f"{kind} ({note}):" if note else f"{kind}:", "dim"), indent=4)
        writer.command(repair.command, indent=6)


def ignored_lines(report: "Report") -> Iterator[str]:
    """Yield a line for each ignored code, with its count and the reason, and one for the baseline."""
    found = Counter((finding.code, reason) for finding, reason in report.ignored)
    for (code, reason), number in found.items():
        yield f"ignored {code}, {how_many(number, 'finding')}: {plain(reason) or 'no reason given'}"
    if report.known:
        yield f"{how_many(report.known, 'known finding')} in the baseline not shown"


def notes(report: "Report") -> list[str]:
    """Return notes on the verdict: limits of the level, and assumptions."""
    checks = (note for each in report.checks for note in each.notes)
    return unique([*report.notes, *(verdict.note for verdict in report.verdicts if verdict.note), *checks])


def closing_line(report: "Report") -> str:
    """Return how much was read, and how long it took."""
    shards = report.evidence.shards
    unread = sum(1 for shard in shards if shard.error is not None)
    read, stored = sum(shard.bytes_read for shard in shards), sum(shard.size or 0 for shard in shards)
    parts = (
        how_many(len(shards), "shard") + (f" ({unread:,} unreadable)" if unread else ""),
        how_many(report.samples, "sample"),
        f"read {size(read)} of {size(stored)}" if read < stored else f"read all {size(stored or read)}",
        f"level {report.level}",
        duration(report.seconds),
    )
    return ", ".join(parts)
