"""The samples of one shard, each with its range of the tar."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import chain

from wdsflow.shards.source.base import Range, Source, SourceError
from wdsflow.shards.tar.members import (
    Behind,
    Piece,
    PieceReader,
    is_junk,
    is_meta,
    split_name,
    why_junk,
)
from wdsflow.shards.tar.plain_entries import Row
from wdsflow.shards.tar.tar_entry import Ending, read_entry
from wdsflow.shards.tar.tar_header import padded
from wdsflow.shards.tar.walk import Walk

from .global_headers import global_headers
from .grouping import Repeats
from .near_damage import NearDamage, incomplete_samples
from .tar_damage import damage_of, is_harmless
from .tar_sample import TarSample

__all__ = ["Samples", "TarSample"]

# No name begins with this.
_NO_NAME = "\0"
# Fields of a sample whose repetitions are recognized.
_MOST_ALIKE = 64


class Samples:
    """Iterate over the samples of a tar, once; counts of other members are complete when the iteration ends.

    A range begins at the first header of the first member, extended headers included, and ends
    after the padding of the last. As in OpenCLIP, a repeated field begins another sample. Members
    that belong to no sample (folders, links, names without extension, metadata) are counted in
    ``left_out``, unless they are inside a sample. Files of macOS and dot-files in folders
    (``is_junk``) end a sample, as they do for readers, but are not samples. The iteration raises
    SourceError if the file is not a tar, OSError if the disk fails. Without ``keep``, less is read:
    for ranges alone.
    """

    def __init__(self, source: Source, *, contents: bool, keep: bool = True) -> None:
        self.source = source
        self.members = 0
        self.left_out: Counter[str] = Counter()
        # Global PAX headers outside of samples: they hold for all that follows.
        self.headers: list[Range] = []
        self.damage: list[str] = []
        self._walk = Walk(source, contents=contents, keep=keep)
        # Of the latest sample.
        self._pieces = PieceReader()
        self.glance = self._pieces.glance
        # Of the next sample.
        self._number = 0
        # Where the latest member ends.
        self._end = 0
        self._current: TarSample | None = None
        # With which the names of its members begin, and the length of that.
        self._prefix = _NO_NAME
        self._prefix_length = 1
        # Members that are left out, unless the sample continues after them.
        self._waiting: Counter[str] = Counter()
        # Fields of the sample before.
        self._before: tuple[str, ...] = ()
        # Fields of an earlier sample, which the next ones may repeat.
        self._names: tuple[str, ...] = ()
        # Ends of its members' names, after the key.
        self._endings: tuple[str, ...] = ()
        self._repeats = Repeats()
        # Damage is before the next sample.
        self._after_damage = False
        self._damages: list[NearDamage] = []
        # The damage before the current sample.
        self._damage_before: NearDamage | None = None
        # The samples that damage has left incomplete, by their numbers; computed when needed.
        self._incomplete: AbstractSet[int] | None = None
        # The first of them, in words.
        self._incomplete_text = ""
        # This iteration computes them: all next to damage are taken for incomplete.
        self._surveys = False

    @property
    def global_records(self) -> bool:
        """Whether global headers have changed names or sizes: a range then has another meaning in another tar."""
        return self._walk.global_records

    def read(self, row: Row, start: int = 0, size: int | None = None) -> bytes:
        """Return contents of a member of the latest sample; fewer than requested only at its end. Raises OSError."""
        rest = max(row[1] - start, 0)
        if size is None or size > rest:
            size = rest
        return self.peek(row[2] + start, size)

    def peek(self, offset: int, size: int) -> bytes:
        """Return bytes of the tar, from memory if they have been read. Raises OSError."""
        data = self.glance(offset, size)
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
        waiting = self._waiting
        reader = self._pieces
        for batch in self._walk:
            rows = batch.rows
            at = 0
            self.members += len(rows)
            pieces = batch.pieces or ((batch.base, batch.window),)
            while at < len(rows):
                current = self._current
                if (
                    current is not None
                    and not waiting
                    and not batch.beyond
                    and len(current.fields) == len(self._names)
                ):
                    repeated = self._repeated(current, rows, at)
                    if repeated:
                        complete = [current, *repeated[:-1]]
                        if reader.pieces is not pieces:
                            # Of the current sample, the bytes are in the pieces before.
                            yield complete[:1]
                            reader.take(pieces)
                            del complete[0]
                        if complete:
                            yield complete
                        current = self._current = repeated[-1]
                        at += len(self._names) * len(repeated)
                        if at == len(rows):
                            break
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
                if batch.behind and at == 1:
                    ended = self._end_before(batch.behind)
                    if ended is not None:
                        yield [ended]
                for sample in self._take(row, pieces, beyond=batch.beyond):
                    yield [sample]
        for sample in self._last():
            yield [sample]

    def _end_before(self, behind: Behind) -> TarSample | None:
        """End the current sample at the end of an archive, or at damage, after which the walk continued; return it."""
        self._after_damage = behind == "damage"
        ended = None
        if self._current is not None:
            ended = self._finish(before_damage=self._after_damage)
        elif self._after_damage:
            self._damages.append(NearDamage(self._walk.gap, None))
        self._damage_before = self._damages[-1] if self._after_damage else None
        return ended

    def _take(self, row: Row, pieces: Sequence[Piece], *, beyond: bool) -> Iterator[TarSample]:
        """Take one member; yield the sample that it ends."""
        name, size, data, header, kind = row
        previous_end = self._end
        has_gap = header != previous_end
        self._end = data + padded(size) if kind == "file" else data
        if kind != "file":
            with suppress(Ending):
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
                self._learn(current)
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

    def _learn(self, sample: TarSample) -> None:
        """Remember the endings of a sample's member names: nearly all samples are like the one before."""
        rows = sample.fields.values()
        if len(rows) > _MOST_ALIKE or sample.trouble:
            return
        if not all(row[4] == "file" for row in rows):
            return
        endings = tuple(row[0][len(sample.key) :] for row in rows)
        if endings != self._endings:
            self._names = tuple(sample.fields)
            self._endings = endings
        sample.names = self._names

    def _repeated(self, current: TarSample, rows: list[Row], at: int) -> list[TarSample]:
        """Return the samples from ``at`` on that repeat the fields of the current one, each directly after the one before."""
        names = self._names
        width = len(names)
        if self._repeats.pause:
            self._repeats.pause -= 1
            return []
        if current.trouble or self._after_damage:
            return []
        if current.names is not names and tuple(current.fields) != names:
            return []
        current.names = names
        keys = self._repeats.keys(rows, at, self._endings)
        if not keys:
            return []
        part = rows[at : at + width * len(keys)]
        starts = [row[3] for row in part]
        # Of the member before, and of these.
        ends = [self._end, *[data + (size + 511 & -512) for _, size, data, _, _ in part]]
        if starts != ends[:-1]:
            first_apart = next(n for n, end in enumerate(ends) if starts[n] != end)
            del keys[first_apart // width :]
        samples = []
        for first, key in zip(range(0, len(part), width), keys, strict=False):
            last = first + width
            sample = TarSample(self._number, key, starts[first])
            sample.fields = dict(zip(names, part[first:last], strict=True))
            sample.names = names
            sample.end = ends[last]
            self._number += 1
            samples.append(sample)
        if samples:
            self._end = samples[-1].end
            self._before = names
            self._prefix = _NO_NAME
        return samples

    def _begin(self, key: str, header: int, *, beyond: bool) -> TarSample:
        sample = self._current = TarSample(self._number, key, header)
        self._number += 1
        if beyond and self.headers:
            sample.trouble = "behind-global-header"
        if self._waiting:
            self.left_out += self._waiting
        # Names that begin with underscores may be metadata, with any key.
        self._prefix = _NO_NAME if key.startswith("__") else f"{key}."
        self._prefix_length = len(key) + 1
        self._after_damage = False
        return sample

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

    def _last(self) -> Iterator[TarSample]:
        stop = self._walk.stop
        if stop is not None and stop.kind == "unreadable" and not self.members:
            raise SourceError("io", stop.detail)
        self.damage += damage_of(self._walk)
        if self._current is not None:
            yield self._finish(before_damage=bool(self.damage) and not self._walk.ended)
        # Two blocks of zeros pass for an end mark.
        if self._incomplete_text and all(map(is_harmless, self.damage)):
            self.damage.append(self._incomplete_text)
        self.left_out += self._waiting

    def _finish(self, *, before_damage: bool = False) -> TarSample:
        """End the current sample and return it; ``before_damage``: damage follows."""
        sample = self._current
        assert sample is not None
        is_near_damage = before_damage
        if self._damage_before is not None:
            self._damage_before.after = sample
            is_near_damage = True
        if before_damage:
            self._damages.append(NearDamage(self._walk.gap, sample))
        if is_near_damage and self._has_lost(sample):
            sample.trouble = "beside-damage"
            if not self._incomplete_text:
                self._incomplete_text = (
                    f"at byte {sample.start:,} a sample lacks members: {sample.key}"
                )
        if not sample.trouble:
            self._before = tuple(sample.fields)
        self._current = None
        self._damage_before = None
        return sample

    def _has_lost(self, sample: TarSample) -> bool:
        """Return whether a sample next to damage has lost a member, or may have."""
        if self._surveys or any(split_name(name)[0] == sample.key for name in self._walk.lost):
            return True
        if not self.source.random:
            return tuple(sample.fields) != self._before
        if self._incomplete is None:
            self._incomplete = self._survey()
        return sample.number in self._incomplete

    def _survey(self) -> set[int]:
        """Return the numbers of all samples that damage has left incomplete; reads the tar again."""
        survey = Samples(self.source, contents=False, keep=False)
        survey._surveys = True
        complete: set[tuple[str, ...]] = set()
        least = sys.maxsize
        for sample in survey:
            if not sample.trouble:
                complete.add(tuple(sample.fields))
                least = min(least, sample.end - sample.start)
        return incomplete_samples(survey._damages, complete, least)
