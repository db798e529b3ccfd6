"""The samples of one shard, each with its range of the tar."""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from wdsflow.shards.source.base import Range, Source, SourceError
from wdsflow.shards.tar.lost_members import HeaderGap
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
from wdsflow.shards.tar.tar_header import BLOCK, BadHeader, padded, parse_header
from wdsflow.shards.tar.walk import Walk

from .grouping import Repeats

NO_END_MARK = "the end mark is missing"
NO_PADDING = "the file ends inside the padding of its last member"
CUT_AFTER_END = "the compressed stream is cut after the end mark"
_HARMLESS = re.compile(f"at byte [0-9,]+ (?:{NO_END_MARK}|{NO_PADDING}|{CUT_AFTER_END})")
_TROUBLE = {
    "tar.truncated-data": "the contents of a member are cut",
    "tar.truncated-header": "the file ends inside a header",
    "tar.bad-header": "a header is damaged",
    "tar.sparse": "a sparse member is not read",
    "tar.cut-stream": "the compressed stream is cut",
    "tar.damaged-stream": "the compressed stream is damaged",
    "tar.no-end-blocks": NO_END_MARK,
    "tar.no-padding": NO_PADDING,
}

# No name begins with this.
_NO_NAME = "\0"
# Fields.
_MOST_ALIKE = 64
# Bytes searched for global headers if the walk skipped something.
_LARGEST_GAP = 1 << 20


def damage_of(walk: Walk) -> list[str]:
    """Return a sentence for each kind of damage in a tar, after the walk over it has ended."""
    texts = _TROUBLE | ({"tar.cut-stream": CUT_AFTER_END} if walk.ended else {})
    found = [(walk.seen[what], text) for what, text in texts.items() if what in walk.seen]
    found += [(walk.zeros, walk.zeros.detail)] if walk.zeros.count else []
    damage = []
    for seen, text in found:
        if text == _TROUBLE["tar.damaged-stream"]:
            damage.append(seen.detail)
            continue
        more = f", and {seen.count - 1:,} more such places" if seen.count > 1 else ""
        damage.append(
            f"at byte {seen.offset:,} {text}{f': {seen.name}' if seen.name else ''}{more}"
        )
    if walk.stop is not None and walk.stop.kind in {"unreadable", "error"} and not damage:
        damage.append(f"at byte {walk.stop.offset:,}: {walk.stop.detail}")
    return damage


def is_harmless(damage: str) -> bool:
    """Return whether nothing is lost by damage that ``damage_of`` found.

    >>> is_harmless("at byte 1,024 the end mark is missing"), is_harmless("at byte 0 a header is damaged")
    (True, False)
    """
    return _HARMLESS.match(damage) is not None


class TarSample:
    """Neighbouring members of one key as one range of the tar; a repeated field begins another sample, as in OpenCLIP."""

    __slots__ = ("end", "fields", "key", "names", "number", "start", "trouble")

    def __init__(self, number: int, key: str, start: int) -> None:
        self.number, self.key, self.start, self.end = number, key, start, start
        # Lower case name -> member.
        self.fields: dict[str, Row] = {}
        # Of the fields, if earlier samples had the same.
        self.names: tuple[str, ...] | None = None
        # A slug if the tar itself is at fault.
        self.trouble = ""


@dataclass
class NearDamage:
    """A part of a tar that cannot be read, and the samples before and after it."""

    gap: HeaderGap
    before: TarSample | None
    after: TarSample | None = None


def losers(
    damages: Sequence[NearDamage], known: AbstractSet[tuple[str, ...]], least: int
) -> set[int]:
    """Return the numbers of the samples that have lost a member, or may have.

    Readable parts of damaged headers come first. Otherwise a sample is whole if others have the
    same fields in the same order, and none has these and more where the damage is. ``known`` are
    the fields of all samples that are not next to damage, ``least`` the bytes of the smallest of
    them.
    """
    seen = known | {
        tuple(each.fields) for damage in damages for each in (damage.before, damage.after) if each
    }
    found: set[int] = set()
    for damage in damages:
        gap, sides = damage.gap, (damage.before, damage.after)
        lost = gap.have_lost(*sides)
        shorter = [
            sample is not None and _is_shorter(sample, seen, at_end=sample is damage.before)
            for sample in sides
        ]
        # If the gap is too small for a whole sample, one of the two has lost its contents.
        either = lost == (None, None) and not any(shorter) and 0 < gap.size < least
        for sample, is_lost, less in zip(sides, lost, shorter, strict=True):
            if sample is not None and (
                is_lost
                or either
                or (is_lost is None and (less or tuple(sample.fields) not in known))
            ):
                found.add(sample.number)
    return found


def _is_shorter(sample: TarSample, seen: AbstractSet[tuple[str, ...]], *, at_end: bool) -> bool:
    """Return whether another sample has the same fields and more of them, at the end or at the start."""
    fields = tuple(sample.fields)
    longer = (each for each in seen if len(each) > len(fields))
    return any(
        (each[: len(fields)] if at_end else each[-len(fields) :]) == fields for each in longer
    )


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
        self._seen = PieceReader()
        self.glance = self._seen.glance
        # Of the next sample; of the latest member.
        self._number = self._end = 0
        # Damage is before the next sample.
        self._hurt = False
        self._current: TarSample | None = None
        # Of the names of its members.
        self._prefix, self._length = _NO_NAME, 1
        # Fields of the sample before.
        self._before: tuple[str, ...] = ()
        self._damages: list[NearDamage] = []
        # The damage before the current sample.
        self._after: NearDamage | None = None
        # The samples that damage has left incomplete, by their numbers.
        self._losers: AbstractSet[int] | None = None
        # Looks for these.
        self._surveys = False
        # The first of them.
        self._left_out = ""
        self._repeats = Repeats()
        # Fields of an earlier sample, which the next ones may repeat.
        self._names: tuple[str, ...] = ()
        # Ends of its members' names, after the key.
        self._endings: tuple[str, ...] = ()
        # Left out, unless the sample continues after them.
        self._waiting: Counter[str] = Counter()

    @property
    def global_records(self) -> bool:
        """Whether global headers have changed names or sizes: a range then has another meaning in another tar."""
        return self._walk.global_records

    def read(self, row: Row, start: int = 0, size: int | None = None) -> bytes:
        """Return contents of a member of the latest sample; fewer than requested only at its end. Raises OSError."""
        rest = max(row[1] - start, 0)
        return self.peek(row[2] + start, rest if size is None or size > rest else size)

    def peek(self, offset: int, size: int) -> bytes:
        """Return bytes of the tar, from memory if they have been read. Raises OSError."""
        data = self.glance(offset, size)
        return data if len(data) == size else self.source.read_at(offset, size)

    def __iter__(self) -> Iterator[TarSample]:
        return chain.from_iterable(self.groups())

    def groups(self) -> Iterator[list[TarSample]]:
        """Yield neighbouring samples whose bytes are in memory together, one or more at a time.

        In place of the iteration, for callers that do a step for many samples at once.
        """
        groups = self._groups()
        return (
            groups
            if self.source.fault is None
            else self._distrusted(groups, self.source.fault.trusted)
        )

    @staticmethod
    def _distrusted(groups: Iterator[list[TarSample]], trusted: int) -> Iterator[list[TarSample]]:
        """Mark the samples after the byte up to which a damaged compressed stream is trusted."""
        for group in groups:
            for sample in group:
                if any(row[2] + row[1] > trusted for row in sample.fields.values()):
                    sample.trouble = "beside-damage"
            yield group

    def _groups(self) -> Iterator[list[TarSample]]:
        waiting, seen, repeats = self._waiting, self._seen, self._repeats
        for batch in self._walk:
            rows, at = batch.rows, 0
            self.members += len(rows)
            pieces = batch.pieces or ((batch.base, batch.window),)
            while at < len(rows):
                current = self._current
                if (
                    current is None
                    or waiting
                    or batch.beyond
                    or len(current.fields) != len(self._names)
                ):
                    pass
                elif repeats.pause:
                    repeats.pause -= 1
                elif repeated := self._repeated(current, rows, at):
                    complete = [current, *repeated[:-1]]
                    if seen.pieces is not pieces:
                        # Of the current sample, the bytes are in the pieces before.
                        yield complete[:1]
                        seen.take(pieces)
                        del complete[0]
                    if complete:
                        yield complete
                    current = self._current = repeated[-1]
                    at += len(self._names) * len(repeated)
                    if at == len(rows):
                        break
                name, size, data, header, kind = row = rows[at]
                at += 1
                # Most members have the key of the one before: this saves a fifth of the time where
                # fields vary.
                if (
                    current is not None
                    and header == self._end
                    and kind == "file"
                    and name.startswith(self._prefix)
                ):
                    field = name[self._length :].lower()
                    if field not in current.fields and "/" not in field:
                        current.fields[field] = row
                        current.end = self._end = data + (size + 511 & -512)
                        waiting.clear()
                        if seen.pieces is not pieces:
                            seen.take(pieces)
                        continue
                if batch.behind and at == 1 and (parted := self._parted(batch.behind)) is not None:
                    yield [parted]
                for sample in self._take(row, pieces, beyond=batch.beyond):
                    yield [sample]
        for sample in self._last():
            yield [sample]

    def _parted(self, behind: Behind) -> TarSample | None:
        """Return the sample before the end of an archive or before damage, where the walk went on."""
        done, self._hurt = None, behind == "damage"
        if self._current is not None:
            done = self._finish(hurt=self._hurt)
        elif self._hurt:
            self._damages.append(NearDamage(self._walk.gap, None))
        self._after = self._damages[-1] if self._hurt else None
        return done

    def _take(self, row: Row, pieces: Sequence[Piece], *, beyond: bool) -> Iterator[TarSample]:
        """Take one member; yield the sample that it ends."""
        name, size, data, header, kind = row
        last, gap = self._end, header != self._end
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
            if gap:
                self.headers += self._global_headers(last, header)
            return
        key, field, current = split[0], split[1].lower(), self._current
        if current is None or key != current.key or field in current.fields:
            if current is not None:
                self._learn(current)
                yield self._finish()
            if gap:
                self.headers += self._global_headers(last, header)
            current = self._begin(key, header, beyond=beyond)
        self._waiting.clear()
        current.fields[field] = row
        current.end = self._end
        if kind == "sparse":
            current.trouble = "sparse-member"
        if self._seen.pieces is not pieces:
            self._seen.take(pieces)

    def _learn(self, sample: TarSample) -> None:
        """Remember the endings of a sample's member names: nearly all samples are like the one before."""
        rows = sample.fields.values()
        if (
            len(rows) <= _MOST_ALIKE
            and not sample.trouble
            and all(row[4] == "file" for row in rows)
        ):
            endings = tuple(row[0][len(sample.key) :] for row in rows)
            if endings != self._endings:
                self._names, self._endings = tuple(sample.fields), endings
            sample.names = self._names

    def _repeated(self, current: TarSample, rows: list[Row], at: int) -> list[TarSample]:
        """Return the samples from ``at`` on that repeat the fields of the current one, each directly after the one before."""
        names, width = self._names, len(self._names)
        if (
            current.trouble
            or self._hurt
            or (current.names is not names and tuple(current.fields) != names)
        ):
            return []
        current.names = names
        if not (keys := self._repeats.keys(rows, at, self._endings)):
            return []
        part = rows[at : at + width * len(keys)]
        starts = [row[3] for row in part]
        ends = [self._end, *[data + (size + 511 & -512) for _, size, data, _, _ in part]]
        if starts != ends[:-1]:
            apart = next(n for n, end in enumerate(ends) if starts[n] != end)
            del keys[apart // width :]
        found = []
        for first, key in zip(range(0, len(part), width), keys, strict=False):
            last = first + width
            sample = TarSample(self._number, key, starts[first])
            sample.fields = dict(zip(names, part[first:last], strict=True))
            sample.names = names
            sample.end = ends[last]
            self._number += 1
            found.append(sample)
        if found:
            self._end = found[-1].end
            self._before, self._prefix = names, _NO_NAME
        return found

    def _begin(self, key: str, header: int, *, beyond: bool) -> TarSample:
        sample = self._current = TarSample(self._number, key, header)
        self._number += 1
        if beyond and self.headers:
            sample.trouble = "behind-global-header"
        if self._waiting:
            self.left_out += self._waiting
        # Names that begin with underscores may be metadata, with any key.
        self._prefix, self._length = (_NO_NAME if key.startswith("__") else f"{key}."), len(key) + 1
        self._hurt = False
        return sample

    def _split(self, name: str, kind: str) -> tuple[str, str] | None:
        reason = ""
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
            yield self._finish(hurt=bool(self.damage) and not self._walk.ended)
        # Two blocks of zeros pass for an end mark.
        if self._left_out and all(map(is_harmless, self.damage)):
            self.damage.append(self._left_out)
        self.left_out += self._waiting

    def _finish(self, *, hurt: bool = False) -> TarSample:
        """Return the current sample; ``hurt``: damage follows."""
        sample, near = self._current, self._after
        assert sample is not None
        if near is not None:
            near.after = sample
        if hurt:
            self._damages.append(NearDamage(self._walk.gap, sample))
        if (hurt or near is not None) and self._has_lost(sample):
            sample.trouble = "beside-damage"
            self._left_out = (
                self._left_out or f"at byte {sample.start:,} a sample lacks members: {sample.key}"
            )
        if not sample.trouble:
            self._before = tuple(sample.fields)
        self._current = self._after = None
        return sample

    def _has_lost(self, sample: TarSample) -> bool:
        """Return whether a sample next to damage has lost a member, or may have."""
        if self._surveys or any(split_name(name)[0] == sample.key for name in self._walk.lost):
            return True
        if not self.source.random:
            return tuple(sample.fields) != self._before
        if self._losers is None:
            others = Samples(self.source, contents=False, keep=False)
            others._surveys = True
            known, least = set(), sys.maxsize
            for other in others:
                if not other.trouble:
                    known.add(tuple(other.fields))
                    least = min(least, other.end - other.start)
            self._losers = losers(others._damages, known, least)
        return sample.number in self._losers

    def _global_headers(self, start: int, end: int) -> Iterator[Range]:
        """Find global PAX headers in bytes that belong to no member."""
        at, end = start, min(end, start + _LARGEST_GAP)
        while at + BLOCK <= end:
            try:
                found = parse_header(self.source.read_at(at, BLOCK), first=True)
            except BadHeader:
                at += BLOCK
                continue
            size = BLOCK + padded(max(found.size, 0))
            if found.type == b"g" and at + size <= end:
                yield at, at + size
            at += size
