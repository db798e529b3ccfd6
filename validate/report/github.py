"""The report as GitHub annotations: workflow commands on standard output, the verdict first.

GitHub shows ten errors and ten warnings per step; the findings of one rule are therefore one
annotation.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

from wdsflow.text.words import command_lines, plain_line, relative

from ..finding import Severity
from ..verdicts.verdict import Outcome, Verdict
from ..verdicts.wording import no_verdict_text
from .finding_groups import FindingGroup, group_findings, repairs_with_codes, shards_of
from .report import Report
from .verdict_text import summary_and_reasons

_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "notice"}
# All others are errors.
_OUTCOMES: dict[Outcome, str] = {"trains": "notice", "not judged": "warning"}
# Shards named in one annotation.
_NAMED = 5


def render(report: Report) -> str:
    """Return the report as lines of workflow commands."""
    commands: list[str] = []
    why = no_verdict_text(report.evidence.shards)
    if why:
        title = "nothing could be read" if report.nothing_read else "no samples"
        commands.append(_command("error", why, title=title))
    commands += [_verdict(verdict) for verdict in report.verdicts]
    commands += [_findings(same_rule) for same_rule in group_findings(report.findings)]
    return "".join(f"{command}\n" for command in commands)


def _verdict(verdict: Verdict) -> str:
    """Return the command for a verdict: the summary, then the first reasons."""
    summary, reasons = summary_and_reasons(verdict)
    message = "\n".join([summary, *reasons[:_NAMED]])
    title = f"{plain_line(verdict.title)} {verdict.word}"
    name = _OUTCOMES.get(verdict.outcome, "error")
    return _command(name, message, title=title)


def _findings(same_rule: FindingGroup) -> str:
    """Return the GitHub command for the findings of one rule.

    It has the first finding, the other shards, and a fix.
    """
    first = same_rule.findings[0]
    message = plain_line(first.message)
    message += _other_shards(shards_of(same_rule)[1:])
    for repair, _ in repairs_with_codes(same_rule.findings)[:1]:
        message += "\nfix: " + "\n".join(command_lines(repair.command))
    file = None if first.shard is None else _file(first.shard)
    title = f"{same_rule.code} {same_rule.title}".rstrip()
    return _command(_COMMANDS[same_rule.severity], message, file=file, title=title)


def _other_shards(shards: Sequence[str]) -> str:
    """Return a line that names further shards, "" if there are none."""
    if not shards:
        return ""
    line = "\nalso in " + ", ".join(shards[:_NAMED])
    unnamed = len(shards) - _NAMED
    if unnamed > 0:
        line += f" and {unnamed:,} more"
    return line


def _command(name: str, message: str, **properties: str | None) -> str:
    """Return a workflow command; properties without a value are left out."""
    texts: list[str] = []
    for key, value in properties.items():
        if value:
            texts.append(f"{key}={_property(value)}")
    if texts:
        name = f"{name} {','.join(texts)}"
    return f"::{name}::{_data(message)}"


def _data(text: str) -> str:
    """Return a text as the message of a command, which is one line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _file(shard: str) -> str | None:
    """Return the path of a shard in the repository; None for a url."""
    path = relative(shard)
    # One letter is a drive of Windows.
    if len(urlsplit(path).scheme) > 1:
        return None
    return plain_line(path)
