"""Compressed shards as Arrow unpacks them: Ray Data reads through it."""

from collections.abc import Callable

from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import open_source

from .evidence import ShardEvidence, Stop

_CODECS = ("gz", "bz2", "zst")  # endings of names after which Arrow unpacks a file, whatever it holds
_FIRST, _NEXT = 512, 10_240  # bytes that tarfile reads at a time


def by_arrow(
    shard: ShardEvidence, scan: Callable[[Source, ShardEvidence], object], *, allow_pipe: bool
) -> ShardEvidence | None:
    """Return the evidence of a shard that Arrow unpacks by its name; None if that is the one which there is.

    Args:
        shard: what a scan found without Arrow.
        scan: fills evidence from a source.
        allow_pipe: run ``pipe:`` urls in a shell.
    """
    codec = shard.url.rpartition(".")[2]
    if codec not in _CODECS or shard.error not in (None, "not-a-tar"):
        return None
    found = ShardEvidence(shard.url)
    if shard.compression != codec:
        found.fail("not-a-tar", f"no {codec} stream, as its name says")
        return found
    try:
        with open_source(shard.url, allow_pipe=allow_pipe) as source:
            source.join()
            scan(source, found)
            # With these bytes comes the end mark, or the error.
            needed = _FIRST + -(-found.stop.offset // _NEXT) * _NEXT
            if source.breaks and found.stop.kind == "end" and needed > (source.length or 0):
                found.stop = Stop("error", found.stop.offset, source.damage or "")
    except SourceError as error:
        found.fail(error.kind, error.detail, fix=error.fix)
    return found
