"""Scans shards as ``wdsflow repair`` would write them; nothing is written."""

from collections.abc import Iterator

from wdsflow.repair.preview import Preview
from wdsflow.repair.sample_fixer import Field
from wdsflow.repair.split_samples import Borders
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.runs import RunCollector
from wdsflow.scan.scan_options import ScanOptions
from wdsflow.scan.scanner import Scanner
from wdsflow.shards.tar.walk import MemberBatch, Row, Seen, WalkStop

NOT_TRIED = "not-tried"  # error of a shard whose repair cannot be predicted
_BATCH = 1_000  # members
_LONGEST_NAME = 100  # bytes that a plain header holds
_NOWHERE = 1 << 62  # no window: contents are read one by one


def scan_repaired(url: str, options: ScanOptions, *, moved: Borders) -> ShardEvidence:
    """Scan a shard as ``wdsflow repair`` without options would write it; nothing is written.

    The error of the evidence is NOT_TRIED if that cannot be known: for shards that can only be read from front to back.
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
        shard.fail(NOT_TRIED, str(error))
    return shard


class _Previewed:
    """The members of a preview, as a walk over the repaired tar would give them."""

    def __init__(self, preview: Preview) -> None:
        self.preview = preview
        self.stop = WalkStop("end", 0, "")
        self.seen: dict[str, Seen] = {}
        self.fields: list[Field] = []

    def read(self, member: Row, start: int, size: int) -> bytes:
        """Return a part of the contents of a member of the latest batch."""
        return self.preview.read(self.fields[member[2]], start, size)

    def __iter__(self) -> Iterator[MemberBatch]:
        rows: list[Row] = []
        for position, (name, field, size) in enumerate(self.preview.members()):
            if len(name.encode("utf-8", "surrogateescape")) > _LONGEST_NAME:
                self.seen.setdefault("name.long", Seen(position, name, name)).count += 1
            rows.append((name, size, len(self.fields), position, "file"))
            self.fields.append(field)
            if len(rows) == _BATCH:
                yield MemberBatch(rows, b"", _NOWHERE, beyond=False)
                rows, self.fields = [], []
        if rows:
            yield MemberBatch(rows, b"", _NOWHERE, beyond=False)
