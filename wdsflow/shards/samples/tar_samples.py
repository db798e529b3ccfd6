"""The samples of one shard, each with its range of the tar."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain

from wdsflow.shards.source.base import NoTarError, Range, Source
from wdsflow.shards.tar.members import (
    GapKind,
    MemberBatch,
    Piece,
    PieceReader,
    is_junk,
    is_meta,
    split_name,
    why_junk,
)
from wdsflow.shards.tar.plain_entries import Row
from wdsflow.shards.tar.tar_entry import NoEntry, read_entry
from wdsflow.shards.tar.tar_header import padded
from wdsflow.shards.tar.walk import Walk

from .damaged_samples import DamagedSamples
from .global_headers import global_headers
from .near_damage import incomplete_samples
from .repeated_samples import RepeatedSamples
from .tar_damage import damage_of, is_harmless
from .tar_sample import TarSample

__all__ = ["Samples", "TarSample"]

# No name begins with this.
_NO_NAME = "\0"


class Samples:
    """Iterate over the samples of a tar, once.

    Counts of other members are complete when the iteration ends.

    A range begins at the first header of the first member, extended headers included, and ends
    after the padding of the last. As in OpenCLIP, a repeated field begins another sample. Members
    that belong to no sample (folders, links, names without extension, metadata) are counted in
    ``left_out``, unless they are inside a sample. Files of macOS and dot-files in folders
    (``is_junk``) end a sample, as they do for readers, but are not samples. The iteration raises
    SourceError if the file is not a tar, OSError if the disk fails.

    Args:
        source: the bytes of the tar.
        contents: read the contents of all members, too.
        keep: keep the bytes that are read, for ``read``. Without, less is read: for ranges alone.
        is_survey: mark all samples next to damage. Otherwise those that have lost a member, which
            may need a survey of the whole tar.
    """

    def __init__(
        self, source: Source, *, contents: bool, keep: bool = True, is_survey: bool = False
    ) -> None:
        self.source = source
        self.members = 0
        self.left_out: Counter[str] = Counter()
        # Global PAX headers outside of samples: they hold for all that follows.
        self.headers: list[Range] = []
        self.damage: list[str] = []
        self._walk = Walk(source, contents=contents, keep=keep)
        # Judges the samples next to damage.
        survey = None if is_survey else partial(_incomplete_in, source)
        self.damaged = DamagedSamples(source, self._walk, survey)
        self._repeated = RepeatedSamples()
        # Of the latest sample.
        self._pieces = PieceReader()
        self.peek_in_memory = self._pieces.peek
        self._current: TarSample | None = None
        self._next_number = 0
        # Where the latest member ends.
        self._end = 0
        # The beginning of the names of the current sample's members, and its length.
        self._prefix = _NO_NAME
        self._prefix_length = 1
        # Members that are left out, unless the sample continues after them.
        self._waiting: Counter[str] = Counter()

    @property
    def global_records(self) -> bool:
        """Whether global headers have changed names or sizes.

        If so, a range has a different meaning in another tar.
        """
        return self._walk.global_records

    def read(self, row: Row, start: int = 0, size: int | None = None) -> bytes:
        """Return contents of a member of the latest sample.

        Fewer bytes than requested are returned only at its end. Raises OSError.
        """
        rest = max(row[1] - start, 0)
        if size is None or size > rest:
            size = rest
        return self.peek(row[2] + start, size)

    def peek(self, offset: int, size: int) -> bytes:
        """Return bytes of the tar, from memory if they have been read. Raises OSError."""
        data = self.peek_in_memory(offset, size)
        return data if len(data) == size else self.source.read_at(offset, size)

    def __iter__(self) -> Iterator[TarSample]:
        return chain.from_iterable(self.groups())

    def groups(self) -> Iterator[list[TarSample]]:
        """Yield neighbouring samples whose bytes are in memory together, one or more at a time.

        Instead of the iteration, for callers that do a step for many samples at once.
        """
        groups = self._groups()
        if self.source.fault is None:
            return groups
        return self._distrusted(groups, self.source.fault.trusted)

    @staticmethod
    def _distrusted(groups: Iterator[list[TarSample]], trusted: int) -> Iterator[list[TarSample]]:
        """Mark the samples after the byte up to which a damaged compressed stream is trusted."""
        for group in groups:
            for sample in group:
                if any(row[2] + row[1] > trusted for row in sample.fields.values()):
                    sample.trouble = "beside-damage"
            yield group

    def _groups(self) -> Iterator[list[TarSample]]:
        for batch in self._walk:
            self.members += len(batch.rows)
            yield from self._take_batch(batch)
        yield from self._end_of_tar()

    def _take_batch(self, batch: MemberBatch) -> Iterator[list[TarSample]]:
        """Take the members of a batch; yield the samples that they end."""
        rows = batch.rows
        pieces = batch.pieces or ((batch.base, batch.window),)
        waiting = self._waiting
        reader = self._pieces
        repeated = self._repeated
        at = 0
        while at < len(rows):
            current = self._current
            # Most samples have the fields of the one before: they are taken many at a time.
            if (
                current is not None
                and not waiting
                and not batch.is_past_stop
                and len(current.fields) == len(repeated.names)
            ):
                samples = repeated.after(current, rows, at)
                if samples:
                    yield from self._take_repeated(samples, pieces)
                    at += len(repeated.names) * len(samples)
                    continue
            name, size, data, header, kind = row = rows[at]
            at += 1
            # Most members have the key of the one before: this
            # saves a fifth of the time where fields vary.
            if (
                current is not None
                and header == self._end
                and kind == "file"
                and name.startswith(self._prefix)
            ):
                field = name[self._prefix_length :].lower()
                if field not in current.fields and "/" not in field:
                    current.fields[field] = row
                    current.end = self._end = data + (size + 511 & -512)
                    waiting.clear()
                    if reader.pieces is not pieces:
                        reader.take(pieces)
                    continue
            # Damage without bytes of its own does not part a sample.
            if batch.gap_before and at == 1:
                yield from self._end_before(batch.gap_before)
            for sample in self._take(row, pieces, beyond=batch.is_past_stop):
                yield [sample]

    def _take_repeated(
        self, samples: list[TarSample], pieces: Sequence[Piece]
    ) -> Iterator[list[TarSample]]:
        """Take samples that directly follow the current one.

        The last of them may have more fields.
        """
        assert self._current is not None
        complete = [self._current, *samples[:-1]]
        if self._pieces.pieces is not pieces:
            # The bytes of the current sample are in the pieces before.
            yield complete[:1]
            self._pieces.take(pieces)
            del complete[0]
        if complete:
            yield complete
        last = samples[-1]
        self.damaged.skip_valid(self._repeated.names)
        self._current = last
        self._next_number = last.number + 1
        self._end = last.end
        # The next member is looked at with care: it may be a further field of the last sample.
        self._prefix = _NO_NAME

    def _end_before(self, gap: GapKind) -> Iterator[list[TarSample]]:
        """End the current sample at the end of an archive or at damage.

        The walk has continued after the damage.
        """
        before_damage = gap == "damage"
        if self._current is not None:
            yield [self._finish(before_damage=before_damage)]
        else:
            self.damaged.pass_gap(is_damage=before_damage)

    def _take(self, row: Row, pieces: Sequence[Piece], *, beyond: bool) -> Iterator[TarSample]:
        """Take one member; yield the sample that it ends."""
        name, size, data, header, kind = row
        previous_end = self._end
        has_gap = header != previous_end
        self._end = data + padded(size) if kind == "file" else data
        if kind != "file":
            with suppress(NoEntry):
                self._end = max(read_entry(self.source.read_at, header, {}).next, data)
        split = self._split(name, kind)
        if split is not None and is_junk(*split):
            if self._current is not None:
                yield self._finish()
            self._waiting[why_junk(name)] += 1
            split = None
        if split is None:
            if has_gap:
                self.headers += global_headers(self.source, previous_end, header)
            return
        key = split[0]
        field = split[1].lower()
        current = self._current
        if current is None or key != current.key or field in current.fields:
            if current is not None:
                self._repeated.learn_fields(current)
                yield self._finish()
            if has_gap:
                self.headers += global_headers(self.source, previous_end, header)
            current = self._begin(key, header, beyond=beyond)
        self._waiting.clear()
        current.fields[field] = row
        current.end = self._end
        if kind == "sparse":
            current.trouble = "sparse-member"
        if self._pieces.pieces is not pieces:
            self._pieces.take(pieces)

    def _split(self, name: str, kind: str) -> tuple[str, str] | None:
        """Return key and field of a member; None for one that is left out, which is counted."""
        if kind not in {"file", "sparse"}:
            reason = kind
        elif is_meta(name):
            reason = "metadata"
        else:
            key, suffix = split_name(name)
            if key is not None and suffix is not None:
                return key, suffix
            reason = why_junk(name) or "no-extension"
        self._waiting[reason] += 1
        return None

    def _begin(self, key: str, header: int, *, beyond: bool) -> TarSample:
        """Begin the next sample and return it."""
        sample = self._current = TarSample(self._next_number, key, header)
        self._next_number += 1
        if beyond and self.headers:
            sample.trouble = "behind-global-header"
        if self._waiting:
            self.left_out += self._waiting
        # Names that begin with underscores may be metadata, with any key.
        self._prefix = _NO_NAME if key.startswith("__") else f"{key}."
        self._prefix_length = len(key) + 1
        return sample

    def _finish(self, *, before_damage: bool = False) -> TarSample:
        """End the current sample and return it; ``before_damage``: damage follows."""
        sample = self._current
        assert sample is not None
        self.damaged.judge(sample, before_damage=before_damage)
        self._current = None
        return sample

    def _end_of_tar(self) -> Iterator[list[TarSample]]:
        """End the last sample and complete the counts.

        Raises NoTarError if nothing could be read.
        """
        stop = self._walk.stop
        if stop is not None and stop.kind == "unreadable" and not self.members:
            raise NoTarError(stop.detail)
        self.damage += damage_of(self._walk)
        if self._current is not None:
            yield [self._finish(before_damage=bool(self.damage) and not self._walk.ended)]
        # Two blocks of zeros pass for an end mark.
        if self.damaged.first_incomplete and all(map(is_harmless, self.damage)):
            self.damage.append(self.damaged.first_incomplete)
        self.left_out += self._waiting


def _incomplete_in(source: Source) -> set[int]:
    """Return the numbers of all samples that damage has left incomplete; reads the tar again."""
    survey = Samples(source, contents=False, keep=False, is_survey=True)
    complete: set[tuple[str, ...]] = set()
    least = sys.maxsize
    for sample in survey:
        if not sample.trouble:
            complete.add(tuple(sample.fields))
            least = min(least, sample.end - sample.start)
    return incomplete_samples(survey.damaged.damages, complete, least)
