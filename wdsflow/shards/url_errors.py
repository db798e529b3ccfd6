"""Why a pattern gives no shards, and how to correct it."""

from wdsflow.text.secrets import redact
from wdsflow.text.shell import escape, quote_path

from .shard import Shard

NEED_NO_COMMAND = "s3://, gs://, hf:// and https:// urls are read without a command"


class NoShards(ValueError):
    """A pattern that matches nothing or makes no sense. ``hint`` is a correction."""

    def __init__(self, pattern: str, hint: str = "") -> None:
        super().__init__(f"no shards match {redact(pattern)!r}")
        self.pattern = pattern
        self.hint = redact(hint)


class NoShardsGiven(NoShards):
    """An empty list of patterns."""

    def __init__(self) -> None:
        super().__init__("")
        self.args = ('no shards given: name them, such as "shards/{00000..00042}.tar"',)


class JsonLinesGiven(NoShards):
    """A file of JSON lines in place of shards. ``hint`` is the command that makes shards of it."""

    def __init__(self, url: str) -> None:
        super().__init__(url, f"to make shards of it: wdsflow pack {quote_path(url)} -o shards")
        self.args = (f"{redact(url)} is a file of JSON lines; shards are tars",)


class PipeNotAllowed(NoShards):
    """A ``pipe:`` url, which would run a shell command, and nobody has said that it may."""

    def __init__(self, shard: Shard) -> None:
        hint = f"if it may run, give --allow-pipe, or allow_pipe=True in Python; {NEED_NO_COMMAND}"
        super().__init__(shard, hint)
        self.args = (f"{escape(shard, 300)} would run a shell command",)
