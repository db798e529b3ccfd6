"""Scans shards with the fields of a table."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

from wdsflow.pieces.view_source import offsets_in_source
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.scan_pool import Progress
from wdsflow.scan.shapes import Runs
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import NoTarError, Source
from wdsflow.shards.source.opening import open_source

from .join_result import JoinResult
from .joined_fields import JoinedFields
from .joined_view import JoinCounts, JoinedShard

View = Callable[[Source], Source]


@dataclass
class JoinedEvidence(ShardEvidence):
    """The evidence of a shard with the fields of a table."""

    join: JoinCounts = field(default_factory=JoinCounts)


@dataclass(frozen=True)
class JoinedScan:
    """Scans a shard as the feed reads it: with the fields of the table.

    ``kept``: returns the part of the shard that is read; None for all of it.
    """

    join: JoinedFields
    kept: View | None = None

    def __call__(self, url: Shard, options: ScanOptions) -> JoinedEvidence:
        """Return the evidence of a shard."""
        joined = JoinedShard(
            self.join,
            url,
            checks_json=options.level != "names",
            checks_images=lambda _: options.level == "full",
            sets_damaged=True,
        )

        # From offsets in the scanned tar to those in the shard; one, or none if it cannot be read.
        to_shard: list[Callable[[int], int]] = []
        # That of the shard; a view does not count what others read for it.
        sources: list[Source] = []

        def view(source: Source) -> Source:
            sources.append(source)
            part = source if self.kept is None else self.kept(source)
            try:
                if part.is_seekable:
                    pieces = joined.pieces(part)
                else:
                    # A stream is read once for its samples, and again.
                    with open_source(url, allow_pipe=options.allow_pipe) as first:
                        pieces = joined.pieces(first if self.kept is None else self.kept(first))
            except NoTarError:
                # The scan finds out why.
                return part
            to_shard.append(offsets_in_source(pieces))
            return joined.view_of(part, pieces)

        evidence = scan_shard(url, options, view=view)
        if sources:
            evidence.bytes_read = max(evidence.bytes_read, sources[0].bytes_read)
        if to_shard and self.kept is None:
            _move(evidence, to_shard[0])
        values = {item.name: getattr(evidence, item.name) for item in fields(evidence)}
        return JoinedEvidence(**values, join=joined.counts)


def _move(evidence: ShardEvidence, offset_in_shard: Callable[[int], int]) -> None:
    """Give all locations in the evidence of a joined tar their offsets in the shard."""
    for tally in evidence.tallies.values():
        if tally.offset is not None:
            tally.offset = offset_in_shard(tally.offset)
    evidence.runs = _moved(evidence.runs, offset_in_shard)
    if evidence.visible_runs is not None:
        evidence.visible_runs = _moved(evidence.visible_runs, offset_in_shard)
    if evidence.all_runs is not None:
        evidence.all_runs = _moved(evidence.all_runs, offset_in_shard)
    if evidence.stop.kind != "unreadable":
        evidence.stop = evidence.stop._replace(offset=offset_in_shard(evidence.stop.offset))


def _moved(runs: Runs, offset_in_shard: Callable[[int], int]) -> Runs:
    head, tail = runs.head, runs.tail
    if head is not None:
        head = head._replace(offset=offset_in_shard(head.offset))
    if tail is not None:
        tail = tail._replace(offset=offset_in_shard(tail.offset))
    inner = [replace(item, offset=offset_in_shard(item.offset)) for item in runs.inner]
    return Runs(head, tuple(inner), tail)


def counting_progress(result: JoinResult, progress: Progress | None) -> Progress:
    """Return a progress function that adds each scanned shard's counts to a result.

    It then calls ``progress``.
    """

    def collect(shard: ShardEvidence) -> None:
        if isinstance(shard, JoinedEvidence):
            result.add(shard.url, shard.join)
            # The rows of all samples of all shards are not kept.
            shard.join = replace(shard.join, rows=JoinCounts().rows)
        if progress is not None:
            progress(shard)

    return collect
