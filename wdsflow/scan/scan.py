"""One pass over one shard: from its bytes to its evidence."""

import time
from collections.abc import Callable

from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Walk

from .evidence import ShardEvidence
from .identify import Identifying
from .runs import RunCollector
from .scan_options import ScanOptions
from .scanner import Scanner
from .through_arrow import by_arrow

__all__ = ["ScanOptions", "scan_shard"]


def scan_shard(
    url: str,
    options: ScanOptions | None = None,
    collector: Callable[[], RunCollector] = RunCollector,
    view: Callable[[Source], Source] | None = None,
) -> ShardEvidence:
    """Scan one shard. What is wrong with it is in the evidence; nothing is raised for bad data.

    Args:
        url: a local path or a url that fsspec opens.
        options: level and what readers ask of contents.
        collector: makes what takes the runs.
        view: returns the part of the shard to look at; None for all.
    """
    options = options or ScanOptions()
    start = time.perf_counter()
    shard = ShardEvidence(url)
    try:
        identifying = Identifying(url) if options.identify else None
        digest = identifying.digest if identifying is not None else None
        with open_source(url, allow_pipe=options.allow_pipe, digest=digest) as source:
            _scan(source if view is None else view(source), shard, options, collector())
            if identifying is not None:
                shard.identity = identifying.done()
                shard.bytes_read = shard.identity.size
        if options.arrow:
            shard.by_arrow = by_arrow(
                shard,
                lambda source, found: _scan(source, found, options, collector()),
                allow_pipe=options.allow_pipe,
            )
    except SourceError as error:
        shard.fail(error.kind, error.detail, fix=error.fix)
    shard.seconds = time.perf_counter() - start
    return shard


def _scan(source: Source, shard: ShardEvidence, options: ScanOptions, collector: RunCollector) -> None:
    """Fill the evidence."""
    shard.size, shard.compression = source.size, source.compression
    scan = Scanner(shard, options, collector)
    some = options.level == "headers" and source.fd >= 0  # each request to another machine would take its time
    walk = Walk(source, contents=options.level != "names" and not some, keep=some, ends=some)
    for batch in walk:
        scan.batch(batch, walk)
    scan.finish(walk)
    shard.bytes_read = source.bytes_read
    if shard.stop.kind == "unreadable":
        shard.error = "empty" if source.size == 0 else "not-a-tar"
        shard.error_detail = shard.stop.detail
