"""Scans shards with the values of a table that is joined, for the check before a training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields

from wdsflow.joining.sample_pieces import NewMember, Pieces, member_name, merged_pieces
from wdsflow.pieces.tar_members import member
from wdsflow.pieces.view_source import view_of
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.scan_pool import Progress, scan_shards
from wdsflow.shards.caption_field import LARGEST
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source
from wdsflow.shards.source.opening import open_source
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.joined_fields import JSON, JoinedFields, Members
from wdsflow.training.sample_tasks import Blob

from .join_errors import ambiguous_join, no_match

# Values to join on.
_EXAMPLES = 3
View = Callable[[Source], Source]


@dataclass
class JoinCounts:
    """The samples of a shard, those with a row and with several rows, and the first values to join on."""

    listed: int
    matched: int
    several: int
    values: list[str]


@dataclass
class JoinedEvidence(ShardEvidence):
    """The evidence of a shard with the values of a table."""

    join: JoinCounts = field(default_factory=lambda: JoinCounts(0, 0, 0, []))


@dataclass(frozen=True)
class JoinedScan:
    """Scans a shard as the feed reads it: with the fields of the table. ``kept``: returns the part that is read."""

    join: JoinedFields
    kept: View | None = None

    def __call__(self, url: Shard, options: ScanOptions) -> JoinedEvidence:
        """Return the evidence of a shard."""
        counts = JoinCounts(0, 0, 0, [])

        def view(source: Source) -> Source:
            part = source if self.kept is None else self.kept(source)
            if part.random:
                return view_of(part, self._pieces(url, part, counts), ends=False)
            # A stream is read once for its samples, and again.
            with open_source(url, allow_pipe=options.allow_pipe) as first:
                samples = first if self.kept is None else self.kept(first)
                pieces = self._pieces(url, samples, counts)
            return view_of(part, pieces, ends=False)

        evidence = scan_shard(url, options, view=view)
        values = {item.name: getattr(evidence, item.name) for item in fields(evidence)}
        return JoinedEvidence(**values, join=counts)

    def _pieces(self, url: Shard, source: Source, counts: JoinCounts) -> Pieces:
        """Return all bytes of a shard, with the members that rows set."""
        samples = Samples(source, contents=not source.random)
        pieces: Pieces = []
        end = 0
        for sample in samples:
            counts.listed += 1
            json = self._json(samples, sample)
            value = self.join.value_of(sample.key, json)
            if value is not None and len(counts.values) < _EXAMPLES:
                counts.values.append(value)
            row = self.join.row_of(url, sample.key, json)
            if row >= 0:
                counts.matched += 1
                counts.several += self.join.index.has_several_rows(row)
            if row < 0 and self.join.drop_unmatched:
                pieces.append((end, sample.start))
                end = sample.end
                continue
            new = self._new_members(samples, sample, row, json) if row >= 0 else []
            if new:
                pieces.append((end, sample.start))
                pieces += merged_pieces(sample.start, sample.end, new)
                end = sample.end
        pieces.append((end, max(end, source.length or 0)))
        return pieces

    def _json(self, samples: Samples, sample: TarSample) -> bytes | None:
        """Return the json of a sample, if that is needed to list it."""
        row = sample.fields.get(JSON) if self.join.lists_by_json else None
        return None if row is None or row[1] > LARGEST else samples.read(row)

    def _new_members(
        self, samples: Samples, sample: TarSample, row: int, json: bytes | None
    ) -> list[NewMember]:
        blobs = {name: Blob(name, member[1], -1) for name, member in sample.fields.items()}
        names = self.join.names_set(row, blobs, json)
        if not names:
            return []
        old: Members = {}
        if self.join.sets_inside and JSON in sample.fields:
            old[JSON] = samples.read(sample.fields[JSON])
        joined = self.join.members(row, old, lambda blob: blob.size)
        new: list[NewMember] = []
        for name in sorted(names & joined.keys()):
            data = joined[name]
            tar_row = sample.fields.get(name)
            if isinstance(data, bytes) and data != old.get(name):
                # Captions are looked for in lower case, also those of a column such as TEXT.
                name_in_shard = member_name(tar_row, sample.key, name.lower())
                new.append((tar_row, member(name_in_shard, data)))
        return new


def scan_joined(
    urls: Sequence[Shard], scan_options: ScanOptions, join: JoinedFields, progress: Progress | None
) -> list[ShardEvidence]:
    """Scan shards with the values of a table."""
    return scan_shards(urls, scan_options, progress=progress, how=[JoinedScan(join)] * len(urls))


def joined_text(
    shards: Sequence[ShardEvidence], join: JoinedFields, options: FeedOptions, *, all_scanned: bool
) -> str:
    """Return a line on the samples with a row. Raises JoinError, as the feed would.

    ``all_scanned``: no shard was left out, so that no other sample can have a row.
    """
    counts = [shard.join for shard in shards if isinstance(shard, JoinedEvidence)]
    listed = sum(count.listed for count in counts)
    matched = sum(count.matched for count in counts)
    several = sum(count.several for count in counts)
    if not matched and (all_scanned or not join.index.rows):
        raise no_match(join, listed, counts[0].values if counts else (), options)
    if not matched:
        return (
            f"none of {how_many(listed, 'sample')} of the checked shards has a row in {join.table}; "
            "the feed looks for rows in all shards"
        )
    if several and options.join_ambiguous == "refuse":
        raise ambiguous_join(join, several, 0, (), options)
    return f"{matched:,} of {how_many(listed, 'sample')} have a row of {join.table}"
