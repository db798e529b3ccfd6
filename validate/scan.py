"""One pass over one shard: from its bytes to its evidence."""

import time
from collections.abc import Callable

from wdsflow.shards.source import Source, SourceError, open_source
from wdsflow.shards.tar import Walk

from .evidence import ShardEvidence, Stop
from .runs import RunCollector
from .scan_options import ScanOptions
from .scanner import Scanner
from .shapes import runs_of

__all__ = ["ScanOptions", "runs_of", "scan_shard"]

_ARROW = ("gz", "bz2", "zst")  # endings of names after which Arrow unpacks a file, whatever it holds


def scan_shard(
    url: str, options: ScanOptions | None = None, collector: Callable[[], RunCollector] = RunCollector
) -> ShardEvidence:
    """Scan one shard. What is wrong with it is in the evidence; nothing is raised for bad data.

    Args:
        url: a local path or a url that fsspec opens.
        options: level and what consumers ask of contents.
        collector: makes what takes the runs.
    """
    options = options or ScanOptions()
    start = time.perf_counter()
    shard = ShardEvidence(url)
    _open_and_scan(shard, options, collector)
    codec = url.rpartition(".")[2]
    if options.arrow and codec in _ARROW and shard.error in (None, "not-a-tar"):
        shard.by_arrow = _by_arrow(shard, codec, options, collector)
    shard.seconds = time.perf_counter() - start
    return shard


def _by_arrow(
    shard: ShardEvidence, codec: str, options: ScanOptions, collector: Callable[[], RunCollector]
) -> ShardEvidence:
    """Scan a shard as Arrow unpacks it."""
    found = ShardEvidence(shard.url)
    if shard.compression == codec:
        _open_and_scan(found, options, collector, joined=True)
    else:
        found.error, found.error_detail = "not-a-tar", f"no {codec} stream, as its name says"
        found.stop = Stop("unreadable", 0, found.error_detail)
    return found


def _open_and_scan(
    shard: ShardEvidence, options: ScanOptions, collector: Callable[[], RunCollector], *, joined: bool = False
) -> None:
    try:
        with open_source(shard.url, allow_pipe=options.allow_pipe) as source:
            if joined:
                source.join()
            _scan(source, shard, options, collector())
            # tarfile reads 512 bytes, then 10,240 at a time: the error comes with the block of the end mark.
            needed = 512 + -(-shard.stop.offset // 10_240) * 10_240
            if joined and source.breaks and shard.stop.kind == "end" and needed > (source.length or 0):
                shard.stop = Stop("error", shard.stop.offset, source.damage or "")
    except SourceError as error:
        shard.error = error.kind
        shard.error_detail = str(error)
        shard.stop = Stop("unreadable", 0, str(error))


def _scan(source: Source, shard: ShardEvidence, options: ScanOptions, collector: RunCollector) -> None:
    shard.size, shard.compression = source.size, source.compression
    scan = Scanner(shard, options, collector)
    walk = Walk(source, contents=options.level != "names")
    for batch in walk:
        scan.batch(batch, walk)
    scan.finish(walk)
    shard.bytes_read = source.bytes_read
    if shard.stop.kind == "unreadable":
        shard.error = "empty" if source.size == 0 else "not-a-tar"
        shard.error_detail = shard.stop.detail
