"""The tar of a shard whose samples have the fields of their rows, without writing it."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wdsflow.pieces.tar_members import member
from wdsflow.pieces.view_source import view_of
from wdsflow.shards.caption_field import LARGEST
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.plain_entries import Row
from wdsflow.stages.base import StageError

from .checked_columns import CHECKED_IMAGE
from .index.row_index import NO_ROW
from .joined_fields import JSON, JoinedFields, Members
from .sample_pieces import NewMember, Pieces, member_name, merged_pieces

# Values to join on.
_EXAMPLES = 3
# Bytes of a member.
_NO_LIMIT = 1 << 62


@dataclass
class JoinCounts:
    """How the samples of a shard match the rows.

    Attributes:
        samples: all of them.
        values: the first values to join on.
        rows: of each sample its entry in the index, negative without one.
        mismatches: of samples that are not those of their rows, by the column that differs.
        examples: a line on the first sample of each of ``mismatches``.
    """

    samples: int = 0
    values: list[str] = field(default_factory=list)
    rows: "array[int]" = field(default_factory=lambda: array("q"))
    mismatches: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)


class _NewField(NamedTuple):
    """A new member: the one that it replaces, None if it is added; its name and its content."""

    row: Row | None
    name: str
    data: bytes


class _Change(NamedTuple):
    """The range and the new members of a sample that changes.

    ``fields`` is empty if the sample is left out.
    """

    start: int
    end: int
    fields: list[_NewField]


@dataclass
class JoinedShard:
    """Makes the tar of a shard with the fields of a table.

    Bytes between samples stay. A member that a row sets keeps its position and name; a new one
    follows the last of its sample.

    Attributes:
        join: the join.
        url: the shard.
        checks_json: leave out samples whose json is not that of their row.
        checks_images: the same for images: see ``JoinedFields.check_sample``.
        sets_damaged: whether samples next to damage get fields, too.
        counts: complete when the tar is made.
    """

    join: JoinedFields
    url: Shard
    checks_json: bool = False
    checks_images: Callable[[TarSample], bool] = lambda _: False
    sets_damaged: bool = False
    counts: JoinCounts = field(default_factory=JoinCounts)

    def view(self, source: Source) -> Source:
        """Return the joined tar.

        Closing it closes the source, which must support random access. Raises SourceError, OSError.
        """
        return self.view_of(source, self.pieces(source))

    @staticmethod
    def view_of(source: Source, pieces: Pieces) -> Source:
        """Return the tar made of pieces of a source, with the faults of the source.

        ``pieces``: such as those that ``pieces`` returns.
        """
        view = view_of(source, pieces, ends=not pieces)
        view.is_truncated, view.damage = source.is_truncated, source.damage
        if source.fault is not None:
            trusted = _moved(pieces, source.fault.trusted)
            view.fault = source.fault._replace(trusted=trusted)
        return view

    def pieces(self, source: Source) -> Pieces:
        """Return all bytes of a shard, with the members that rows set.

        Empty if no sample is left. Raises SourceError, OSError.
        """
        samples = Samples(source, contents=not source.is_seekable)
        changes: list[_Change] = []
        for sample in samples:
            fields = self._changed(samples, sample)
            if fields is not None:
                changes.append(_Change(sample.start, sample.end, fields))
        left_out = sum(not change.fields for change in changes)
        if changes and left_out == self.counts.samples:
            # What may be left, a global header without a member, is no tar.
            return []
        # Whether they need extended headers is known at the end.
        return _all_pieces(changes, source.length or 0, extended=samples.global_records)

    def count(self, source: Source) -> None:
        """Count how samples and rows match, without the tar. Raises SourceError, OSError."""
        samples = Samples(source, contents=not source.is_seekable)
        for sample in samples:
            if sample.trouble and not self.sets_damaged:
                # It gets no fields, so that it shares its row with no other sample.
                self.counts.samples += 1
                self.counts.rows.append(NO_ROW)
                continue
            row = self._row_of(sample, self._listed_json(samples, sample))
            if row >= 0:
                self._is_mismatch(samples, sample, row)

    def _changed(self, samples: Samples, sample: TarSample) -> list[_NewField] | None:
        """Return the new members of a sample, none if it is left out, None if it stays."""
        json = self._listed_json(samples, sample)
        row = self._row_of(sample, json)
        if self.join.leaves_out(row):
            return []
        if row < 0 or (sample.trouble and not self.sets_damaged):
            return None
        if self._is_mismatch(samples, sample, row):
            return []
        return self._new_fields(samples, sample, row, json) or None

    def _row_of(self, sample: TarSample, json: bytes | None) -> int:
        """Return the row of a sample, and count it."""
        counts = self.counts
        counts.samples += 1
        if len(counts.values) < _EXAMPLES:
            value = self.join.value_of(sample.key, json)
            if value is not None:
                counts.values.append(value)
        row = self.join.row_of(self.url, sample.number, sample.key, json)
        counts.rows.append(row)
        return row

    def _listed_json(self, samples: Samples, sample: TarSample) -> bytes | None:
        """Return the json of a sample, if that is needed to know its row or its members."""
        row = sample.fields.get(JSON) if self.join.needs_json else None
        return None if row is None or row[1] > LARGEST else samples.read(row)

    def _is_mismatch(self, samples: Samples, sample: TarSample, row: int) -> bool:
        """Return whether a sample is not that of its row, and count it."""
        image = b""
        members: Members = {}
        if self.checks_json and self.join.checks_json and JSON in sample.fields:
            members[JSON] = samples.read(sample.fields[JSON])
        if CHECKED_IMAGE in self.join.index.checked and self.checks_images(sample):
            name = next((name for name in IMAGE_FIELDS if name in sample.fields), None)
            image = b"" if name is None else samples.read(sample.fields[name])
        if not members and not image:
            return False
        try:
            self.join.check_sample(row, image, members)
        except StageError as error:
            column = error.slug.removeprefix("other-")
            counts = self.counts
            counts.mismatches[column] = counts.mismatches.get(column, 0) + 1
            counts.examples.setdefault(column, f"{sample.key}: {error}")
            return True
        return False

    def _new_fields(
        self, samples: Samples, sample: TarSample, row: int, json: bytes | None
    ) -> list[_NewField]:
        """Return the members of a sample that its row sets."""
        old_row = sample.fields.get(JSON)
        names = self.join.fields_of_row(row, json, 0 if old_row is None else old_row[1])
        if not names:
            return []
        old: Members = {}
        if self.join.sets_in_json and old_row is not None:
            old[JSON] = samples.read(old_row)
        joined = self.join.joined_members(row, old, lambda _: _NO_LIMIT)
        # Its json cannot be changed.
        if joined is old:
            return []
        new: list[_NewField] = []
        for name, data in joined.items():
            if name in names and isinstance(data, bytes):
                tar_row = sample.fields.get(name)
                # Captions are looked for in lower case, also those of a column such as TEXT.
                new_name = member_name(tar_row, sample.key, name.lower())
                new.append(_NewField(tar_row, new_name, data))
        return new


def _moved(pieces: Pieces, offset: int) -> int:
    """Return where a byte of a source is in a tar of pieces."""
    moved = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            moved += len(piece)
            continue
        start, end = piece
        if end > offset:
            return moved + max(offset - start, 0)
        moved += end - start
    return moved


def _all_pieces(changes: "Sequence[_Change]", length: int, *, extended: bool) -> Pieces:
    """Return all bytes of a shard with the changes applied.

    ``extended``: new members need extended headers.
    """
    pieces: Pieces = []
    end = 0
    for change in changes:
        pieces.append((end, change.start))
        end = change.end
        if change.fields:
            new: list[NewMember] = []
            for row, name, data in change.fields:
                new.append((row, member(name, data, extended=extended)))
            pieces += merged_pieces(change.start, change.end, new)
    pieces.append((end, max(end, length)))
    return pieces
