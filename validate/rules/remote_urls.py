"""Rules about the urls of shards, which readers open in their own ways."""

from collections.abc import Iterator

from wdsflow.readers.url_schemes import as_pipe
from wdsflow.shards.shard import PIPE
from wdsflow.text.shell import escape, quote
from wdsflow.text.words import how_many

from ..finding import Finding, Repair
from .kit.base import Context, Rule
from .kit.families import flag


class UnopenedUrls(Rule):
    """A reader cannot open the urls of shards.

    What: webdataset starts a program for each url, and knows http, https, gs, sftp, ftps, scp, ais and pipe; 1.x also
    knows hf. It has no handler for s3, and up to 0.2.86 none for hf. OpenCLIP reads through webdataset 0.2.86.
    wdsflow itself reads all urls that fsspec knows, so it can judge what is in these shards.

    Why it matters: each shard is an error: "no gopen handler defined". OpenCLIP logs a warning for each, finds no sample,
    and starts over endlessly; webdataset without a handler ends with the error.

    In practice: ``--train-data "s3://bucket/{000..042}.tar"``, which works with many other tools.

    Fix: ``wdsflow train`` in place of ``open_clip_train``: it reads these urls itself, and resumes after a broken
    connection. Otherwise a command: ``pipe:aws s3 cp s3://bucket/{000..042}.tar -``.
    """

    code = "P332"

    def check(self, context: Context) -> Iterator[Finding]:
        shards = context.evidence.shards
        for reader in context.readers:
            unreached = [(shard.url, why) for shard in shards if (why := reader.unreached(shard.url))]
            if not unreached:
                continue
            first, why = unreached[0]
            title = reader.title.split(" (")[0]
            opens = "opens none of" if len(unreached) == len(shards) else "does not open"
            text = f"{title} {opens} {how_many(len(unreached), 'shard')}, first {escape(first, 200)}: {why}"
            clip = reader.name.startswith("open-clip")
            instead = "; wdsflow train does" if clip else ""
            piped = as_pipe(first)
            if piped:
                instead += f"; a command does as well, such as {quote(piped)}"
            is_stated = context.arguments is not None and clip
            yield self.found(
                f"{text}{instead}",
                (reader.name,),
                first,
                count=len(unreached),
                severity="error" if is_stated else "warning",
                fix=_fix(context) if clip else None,
            )


def _fix(context: Context) -> Repair | None:
    """Return the training command with a command in place of each url; None if one is not known for each."""
    if context.arguments is None or not context.arguments.train_data:
        return None
    commands: list[str] = []
    for pattern in context.arguments.train_data.split("::"):
        command = pattern if pattern.startswith(PIPE) else as_pipe(pattern)
        if not command:
            return None
        commands.append(command)
    return flag("--train-data", "::".join(commands))
