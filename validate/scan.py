"""One pass over one shard: from its bytes to its evidence."""

import time
from collections.abc import Callable, Iterator

from wdsflow.repair.mend import Field
from wdsflow.repair.preview import Borders, Preview
from wdsflow.shards.source import Source, SourceError, open_source
from wdsflow.shards.tar import Batch, Row, Seen, Walk
from wdsflow.shards.tar import Stop as WalkStop

from .arrow import by_arrow
from .evidence import ShardEvidence, Stop
from .runs import RunCollector
from .scan_options import ScanOptions
from .scanner import Scanner
from .shapes import runs_of

__all__ = ["ScanOptions", "runs_of", "scan_repaired", "scan_shard"]

NOT_TRIED = "not-tried"  # error of a shard of which it is not known what a repair would make of it
_BATCH = 1_000  # members
_NOWHERE = 1 << 62  # where no window is: contents are read one by one


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
    try:
        with open_source(url, allow_pipe=options.allow_pipe) as source:
            _scan(source, shard, options, collector())
        if options.arrow:
            shard.by_arrow = by_arrow(
                shard,
                lambda source, found: _scan(source, found, options, collector()),
                allow_pipe=options.allow_pipe,
            )
    except SourceError as error:
        shard.error = error.kind
        shard.error_detail, shard.error_fix = error.detail, error.fix
        shard.stop = Stop("unreadable", 0, error.detail)
    shard.seconds = time.perf_counter() - start
    return shard


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


def scan_repaired(url: str, options: ScanOptions, moved: Borders) -> ShardEvidence:
    """Scan a shard as ``wdsflow repair`` without options would write it; nothing is written.

    The error of the evidence is NOT_TRIED where that cannot be known: of shards that can be read from front to back only.
    """
    shard = ShardEvidence(url)
    try:
        with Preview(url, moved, allow_pipe=options.allow_pipe) as preview:
            walk = _Previewed(preview)
            scan = Scanner(shard, options, RunCollector())
            for batch in walk:
                scan.batch(batch, walk)
            scan.finish(walk)
    except (OSError, ValueError) as error:
        return ShardEvidence(url, error=NOT_TRIED, error_detail=str(error), stop=Stop("unreadable", 0, str(error)))
    return shard


class _Previewed:
    """The members of a preview, as a walk over the tar that a repair would write gives them."""

    def __init__(self, preview: Preview) -> None:
        self.preview = preview
        self.stop = WalkStop("end", 0, "")
        self.seen: dict[str, Seen] = {}
        self.fields: list[Field] = []

    def has_holes(self, member: Row) -> bool:
        """Return False: repairs fill the holes of sparse members."""
        return False

    def read(self, member: Row, start: int, size: int) -> bytes:
        """Return a part of the contents of a member of the latest batch."""
        return self.preview.read(self.fields[member[2]], start, size)

    def __iter__(self) -> Iterator[Batch]:
        rows: list[Row] = []
        for position, (name, field, size) in enumerate(self.preview.members()):
            rows.append((name, size, len(self.fields), position, "file"))
            self.fields.append(field)
            if len(rows) == _BATCH:
                yield Batch(rows, b"", _NOWHERE, beyond=False)
                rows, self.fields = [], []
        if rows:
            yield Batch(rows, b"", _NOWHERE, beyond=False)
