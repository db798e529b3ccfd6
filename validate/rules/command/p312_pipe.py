import re
from collections.abc import Iterator

from wdsflow.text.escape import escape

from ...finding import Finding
from ..kit.base import Context, Rule

_CURL = re.compile(r"(?:^|[\s;|&(/])curl\s")
_CURL_FAILS = re.compile(r"\s(?:--fail|--fail-with-body|-[A-Za-z]*f[A-Za-z]*)(?:\s|=|$)")
_SWALLOWED = re.compile(r"\|\|\s*(?:true|:)|;\s*true\s*$")
_PIPED = re.compile(r"(?<!\|)\|(?!\|)")


class LossyPipe(Rule):
    """A pipe: url hides failures.

    What: the command of a ``pipe:`` url can fail unnoticed: ``curl`` without ``-f`` (an error page becomes the shard),
    ``|| true`` (nothing becomes the shard), or several commands joined by ``|``, of which only the last one's exit
    status counts.

    Why it matters: webdataset reads the output of the command, and its exit status at the end. A page that says "404
    Not Found" is not a tar: the shard's samples are missing, with at most one warning. At the next visit it may work
    again, so runs differ from each other.

    In practice: webdataset#2, #22 (error pages read as tars), #35, #112 (broken pipes), #308 (curl without a time limit
    hangs a worker).

    Fix: ``pipe:curl -sSfL --retry 5 --connect-timeout 10 --max-time 600 URL``; before joined commands, ``set -o
    pipefail;`` under bash.
    """

    code = "P312"
    severity = "warning"

    def check(self, context: Context) -> Iterator[Finding]:
        urls = list(context.urls)
        if context.arguments is not None:
            urls += [data for data in (context.arguments.train_data, context.arguments.val_data) if data]
        for url in dict.fromkeys(part for text in urls for part in text.split("::")):
            trouble = _trouble(url.removeprefix("pipe:")) if url.startswith("pipe:") else ""
            if trouble:
                yield Finding(self.code, self.severity, f"{escape(url)}: {trouble}", readers=context.names())


def _trouble(command: str) -> str:
    if _SWALLOWED.search(command):
        return "a failure is turned into success, and the output until then is taken for the shard"
    if _CURL.search(command) and not _CURL_FAILS.search(command):
        return "curl without -f: an error page is taken for the shard"
    if _PIPED.search(command) and "pipefail" not in command:
        return "only the last command's failure is noticed: begin with 'set -o pipefail;'"
    return ""
