import os
import re
from collections.abc import Iterator

from wdsflow.text.escape import escape

from ...finding import Finding
from ..kit.base import Context, Rule
from ..kit.training_rule import clips

_RANGES = re.compile(r"\{[^{}]*\}\S*\s+\S*\{")


class UnreadableUrls(Rule):
    """OpenCLIP cannot expand --train-data as it is written.

    What: OpenCLIP knows braces ``{000..042}``, ``::`` between sources and ``${NAME}`` for the environment variable
    WDS_NAME. It knows no globs, no folders, no ``~``, no ``@list.txt`` and no space between urls. wdsflow reads those.

    Why it matters: ``shards/*.tar`` is taken for one shard of that name, which does not exist: a warning, no sample,
    and the workers start again endlessly. Two ranges with a space between them multiply: ``"/a/{1..10} /b/{1..10}"``
    stands for 100 names, none of which exists. Without quotes the shell expands the braces itself, and argparse refuses
    the rest.

    In practice: open_clip#84 (cross product), #278 (10^16 urls); webdataset#170, #156, #415; diffusers#5743 (a folder);
    clip-retrieval#245 (unquoted braces: only the first tar was read).

    Fix: ``--train-data "shards/{000..042}.tar"``, in quotes, ``::`` between several patterns.
    """

    code = "P319"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        if context.arguments is None or context.arguments.dataset_type not in ("auto", "webdataset"):
            return
        for flag, text in (("--train-data", context.arguments.train_data), ("--val-data", context.arguments.val_data)):
            for pattern in (text or "").split("::"):
                trouble = _trouble(pattern)
                if trouble:
                    message = f"{flag} {escape(pattern)}: {trouble}"
                    yield Finding(self.code, self.severity, message, readers=clips(context))


def _trouble(pattern: str) -> str:
    if not pattern or pattern.startswith("pipe:") or os.path.isfile(pattern):
        return ""
    if _RANGES.search(pattern):
        return "two ranges with a space between them multiply; put :: between them"
    if " " in pattern.strip() and ".tar " in pattern:
        return "a space is part of the name; put :: between several urls"
    if pattern.startswith("@"):
        return "OpenCLIP reads no lists of urls"
    if pattern.startswith("~"):
        return "~ in quotes stays as it is; write the path in full"
    if "://" not in pattern and re.search(r"[*?\[]", pattern):
        return "OpenCLIP expands no globs: this is one shard of that name; use braces"
    if os.path.isdir(pattern):
        return "OpenCLIP reads no folders; name the shards with braces"
    return ""
