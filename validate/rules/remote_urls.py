"""Rules about the urls of shards, which readers open in their own ways."""

from collections.abc import Iterator, Sequence

from wdsflow.readers.base import Reader
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.url_schemes import as_pipe
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.shard import PIPE
from wdsflow.shards.source.base import single_shard
from wdsflow.text.secrets import redact
from wdsflow.text.shell import escape, quote
from wdsflow.text.words import how_many

from ..finding import Finding
from ..verdicts.wording import short_title
from .kit.base import Context, Rule
from .kit.training_rules import flag_repair

# Of a url.
_MOST_LETTERS = 200


class UnopenedUrls(Rule):
    """A reader cannot open the urls of shards.

    What: webdataset starts a program for each url, and knows http, https, gs, sftp, ftps, scp, ais
    and pipe; 1.x also knows hf. It has no handler for s3, and up to 0.2.86 none for hf. OpenCLIP
    reads through webdataset 0.2.86. wdsflow itself reads all urls that fsspec knows, so it can
    judge what is in these shards.

    Why it matters: each shard is an error: "no gopen handler defined". OpenCLIP logs a warning for
    each, finds no sample, and starts over endlessly; webdataset without a handler ends with the
    error.

    In practice: ``--train-data "s3://bucket/{000..042}.tar"``, which works with many other tools.

    Fix: ``wdsflow train`` in place of ``open_clip_train``: it reads these urls itself, and resumes
    after a broken connection. In a training script of your own, call ``wdsflow.register_gopen()``
    before the first shard is opened: webdataset then reads them in the same way. Otherwise a
    command: ``pipe:aws s3 cp s3://bucket/{000..042}.tar -``.
    """

    code = "P332"

    def check(self, context: Context) -> Iterator[Finding]:
        arguments = context.arguments
        is_named = arguments is not None and (arguments.train_data or arguments.val_data)
        for reader in context.readers:
            if arguments is not None and is_named and reader.runs_training_command:
                yield from self._of_command(arguments, reader)
            else:
                yield from self._of_shards(context.evidence.shards, reader)

    def _of_command(self, arguments: Arguments, reader: Reader) -> Iterator[Finding]:
        """Yield findings on the data of a training command that its reader cannot open.

        It does not matter which shards were scanned.
        """
        options = {"--train-data": arguments.train_data, "--val-data": arguments.val_data}
        for option, data in options.items():
            patterns = data.split("::") if data else []
            unreached = [
                pattern for pattern in patterns if reader.why_not_opened(single_shard(pattern))
            ]
            if not unreached:
                continue
            first = escape(redact(unreached[0]), _MOST_LETTERS)
            why = reader.why_not_opened(single_shard(unreached[0]))
            text = f"{short_title(reader.title)} does not open {option} {first}: {why}; wdsflow train does"
            piped = [
                pattern if pattern.startswith(PIPE) else as_pipe(pattern) for pattern in patterns
            ]
            fix = flag_repair(option, "::".join(piped)) if all(piped) else None
            yield self.finding(text, (reader.name,), severity="error", fix=fix)

    def _of_shards(self, shards: Sequence[ShardEvidence], reader: Reader) -> Iterator[Finding]:
        unreached = [shard.url for shard in shards if reader.why_not_opened(shard.url)]
        if not unreached:
            return
        first = unreached[0]
        why = reader.why_not_opened(first)
        opens = "opens none of" if len(unreached) == len(shards) else "does not open"
        count = how_many(len(unreached), "shard")
        text = f"{short_title(reader.title)} {opens} {count}, first {escape(first, _MOST_LETTERS)}: {why}"
        if reader.runs_training_command:
            text += "; wdsflow train does"
        piped = as_pipe(first)
        if piped:
            text += f"; a command does as well, such as {quote(piped)}"
        yield self.finding(text, (reader.name,), first, count=len(unreached))
