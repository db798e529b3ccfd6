"""The report as GitHub annotations: workflow commands on standard output, the verdict first.

GitHub shows ten errors and ten warnings per step; the findings of one rule are therefore one
annotation.
"""

from urllib.parse import urlsplit

from wdsflow.text.words import command_lines, plain, relative

from ..finding import Severity
from ..verdicts.verdict import Outcome
from ..verdicts.wording import no_verdict_text
from .finding_groups import fixes, group, shards_of
from .report import Report
from .verdict_text import summary_and_reasons

_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "notice"}
# All others are errors.
_OUTCOMES: dict[Outcome, str] = {"trains": "notice", "not judged": "warning"}
# Shards named in one annotation.
_NAMED = 5


def render(report: Report) -> str:
    """Return the report as lines of workflow commands."""
    lines = []
    if why := no_verdict_text(report.evidence.shards):
        title = "nothing could be read" if report.nothing_read else "no samples"
        lines.append(_command("error", why, title=title))
    for verdict in report.verdicts:
        summary, reasons = summary_and_reasons(verdict)
        command = _OUTCOMES.get(verdict.outcome, "error")
        title = f"{plain(verdict.title)} {verdict.word}"
        lines.append(_command(command, "\n".join([summary, *reasons[:_NAMED]]), title=title))
    for each in group(report.findings):
        first = each.findings[0]
        message = plain(first.message)
        others = shards_of(each)[1:]
        if others:
            rest = len(others) - _NAMED
            message += (
                "\nalso in "
                + ", ".join(others[:_NAMED])
                + (f" and {rest:,} more" if rest > 0 else "")
            )
        for repair, _ in fixes(each.findings)[:1]:
            message += "\nfix: " + "\n".join(command_lines(repair.command))
        file = None if first.shard is None else _file(first.shard)
        title = f"{each.code} {each.title}".rstrip()
        lines.append(_command(_COMMANDS[each.severity], message, file=file, title=title))
    return "".join(line + "\n" for line in lines)


def _command(name: str, message: str, **properties: str | None) -> str:
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{name}{' ' if given else ''}{given}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _file(shard: str) -> str | None:
    path = relative(shard)
    return None if len(urlsplit(path).scheme) > 1 else plain(path)
