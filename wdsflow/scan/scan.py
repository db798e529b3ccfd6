"""One pass over one shard: from its bytes to its evidence."""

from collections.abc import Callable

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import FIRST, NEXT, Source, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.members import Stop
from wdsflow.shards.tar.walk import Walk

from .evidence import ScanOptions, ShardEvidence
from .runs import RunCollector
from .scanner import Scanner

# Extensions for which Arrow unpacks a file, regardless of its contents.
_CODECS = ("gz", "bz2", "zst")


def scan_shard(
    url: Shard,
    options: ScanOptions | None = None,
    collector: Callable[[], RunCollector] = RunCollector,
    view: Callable[[Source], Source] | None = None,
) -> ShardEvidence:
    """Scan one shard. Faults are in the evidence; nothing is raised for bad data.

    Args:
        url: the shard.
        options: level, and what readers need to know about contents.
        collector: makes the collector of runs.
        view: returns the part of the shard to look at; None for all.
    """
    options = options or ScanOptions()
    shard = ShardEvidence(url)
    try:
        with open_source(url, allow_pipe=options.allow_pipe) as source:
            # Of the shard: the part of it is unpacked already.
            shard.compression = source.compression
            _scan(view(source) if view else source, shard, options, collector())
        if options.arrow:
            shard.by_arrow = _by_arrow(shard, options, collector)
    except SourceError as error:
        shard.fail(error.kind, error.detail, fix=error.fix)
    return shard


def _scan(
    source: Source, shard: ShardEvidence, options: ScanOptions, collector: RunCollector
) -> None:
    shard.size = source.size
    scan = Scanner(shard, options, collector)
    # Headers and ends of images are enough, but each part of a remote shard would be a request.
    reads_parts = options.level == "headers" and source.fd >= 0
    contents = options.level != "names" and not reads_parts
    walk = Walk(source, contents=contents, keep=reads_parts, ends=reads_parts)
    for batch in walk:
        scan.batch(batch, walk)
    scan.finish(walk)
    shard.bytes_read = source.bytes_read
    if shard.stop.kind == "unreadable":
        shard.error = "empty" if source.size == 0 else "not-a-tar"
        shard.error_detail = shard.stop.detail


def _by_arrow(
    shard: ShardEvidence, options: ScanOptions, collector: Callable[[], RunCollector]
) -> ShardEvidence | None:
    """Scan a shard again as Arrow unpacks it, by its name; None if that changes nothing."""
    codec = shard.url.rpartition(".")[2]
    if codec not in _CODECS or shard.error not in (None, "not-a-tar"):
        return None
    evidence = ShardEvidence(shard.url)
    if shard.compression != codec:
        evidence.fail("not-a-tar", f"no {codec} stream, as its name says")
        return evidence
    try:
        with open_source(shard.url, allow_pipe=options.allow_pipe) as source:
            source.join_streams()
            evidence.compression = source.compression
            _scan(source, evidence, options, collector())
            # With these bytes comes the end mark, or the error.
            needed = FIRST + -(-evidence.stop.offset // NEXT) * NEXT
            is_cut = source.raises_at_end and needed > (source.length or 0)
            if is_cut and evidence.stop.kind == "end":
                evidence.stop = Stop("error", evidence.stop.offset, source.damage or "")
    except SourceError as error:
        evidence.fail(error.kind, error.detail, fix=error.fix)
    return evidence
