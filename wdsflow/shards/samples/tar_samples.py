"""The samples of one shard, each with its range of the tar."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from wdsflow.shards.source.base import Range, Source, SourceError
from wdsflow.shards.tar.member_names import is_junk, is_meta, split_name, why_junk
from wdsflow.shards.tar.members import Piece, Seen
from wdsflow.shards.tar.plain_entries import Row
from wdsflow.shards.tar.tar_entry import Ending, read_entry
from wdsflow.shards.tar.tar_header import BLOCK, BadHeader, padded, parse_header
from wdsflow.shards.tar.walk import Walk

from .near_damage import NearDamage, losers
from .tar_sample import TarSample, is_harmless, troubles

_NO_NAME = "\0"  # no name begins with this
_MOST_ALIKE = 64  # fields
_LARGEST_GAP = 1 << 20  # bytes searched for global headers if the walk skipped something


def damage_of(walk: Walk) -> list[str]:
    """Return what is wrong with a tar, a sentence for each kind of damage, when the walk over it has ended."""
    damage = []
    for what, text in troubles(ended=walk.ended).items():
        seen = walk.seen.get(what)
        if seen is not None and what == "tar.damaged-stream":
            damage.append(seen.detail)
        elif seen is not None:
            damage.append(_sentence(seen, text))
    if walk.zeros.count:
        damage.append(_sentence(walk.zeros, walk.zeros.detail))
    if walk.stop is not None and walk.stop.kind in {"unreadable", "error"} and not damage:
        damage.append(f"at byte {walk.stop.offset:,}: {walk.stop.detail}")
    return damage


def _sentence(seen: Seen, text: str) -> str:
    more = f", and {seen.count - 1:,} more such places" if seen.count > 1 else ""
    return f"at byte {seen.offset:,} {text}{f': {seen.name}' if seen.name else ''}{more}"


class Samples:
    """Iterate over the samples of a tar, once; counts of other members are complete when the iteration ends.

    A range begins at the first header of the first member, extended headers included, and ends after the padding of the
    last. As in OpenCLIP, a repeated field begins another sample. Members that belong to no sample (folders, links,
    names without extension, metadata) are counted in ``left_out``, unless they lie inside a sample. Files of macOS and
    dot-files in folders (``is_junk``) end a sample, as they do for readers, but are none; with ``junk``, they are
    samples as well. The iteration raises SourceError if the file is not a tar, OSError if the disk fails. Without
    ``keep``, less is read: for ranges alone.
    """

    def __init__(self, source: Source, *, contents: bool, keep: bool = True, junk: bool = False) -> None:
        self.source = source
        self.members = 0
        self.left_out: Counter[str] = Counter()
        self.headers: list[Range] = []  # global PAX headers outside of samples: they hold for all that follows
        self.damage: list[str] = []
        self._junk = junk
        self._walk = Walk(source, contents=contents, keep=keep)
        self._pieces: Sequence[Piece] = ((0, b""),)  # piece of the tar around the latest members
        self._base, self._window = self._pieces[0]  # the latest piece that was used
        self._at = self._number = 0
        self._current: TarSample | None = None
        self._before: tuple[str, ...] = ()  # fields of the sample before
        self._damages: list[NearDamage] = []
        self._after: NearDamage | None = None  # the damage before the current sample
        self._losers: AbstractSet[int] | None = None  # the samples that damage has left incomplete, by their numbers
        self._surveys = False  # looks for these
        self._left_out = ""  # the first of them
        self._names: tuple[str, ...] = ()
        self._endings: list[str] = []  # ends of the members' names, after the key
        self._waiting: Counter[str] = Counter()  # left out, unless the sample continues after them

    @property
    def global_records(self) -> bool:
        """Whether global headers changed names or sizes so far: a range then means another thing in another tar."""
        return self._walk.global_records

    def read(self, row: Row, start: int = 0, size: int | None = None) -> bytes:
        """Return contents of a member of the latest sample; fewer than requested only at its end. Raises OSError."""
        rest = max(row[1] - start, 0)
        return self.peek(row[2] + start, rest if size is None or size > rest else size)

    def peek(self, offset: int, size: int) -> bytes:
        """Return bytes of the tar, from memory if they have been read. Raises OSError."""
        data = self.glance(offset, size)
        return data if len(data) == size else self.source.read_at(offset, size)

    def glance(self, offset: int, most: int) -> bytes:
        """Return those of some bytes of the tar that have been read, from the first on; maybe none."""
        at = offset - self._base
        if not 0 <= at < len(self._window):
            self._turn_to(offset)
            at = offset - self._base
            if at < 0:
                return b""
        return self._window[at : at + most]

    def _turn_to(self, offset: int) -> None:
        """Switch to the piece that may hold a byte; pieces overlap at most by the repeated part of the last one."""
        pieces, at = self._pieces, self._at
        while at + 1 < len(pieces) and pieces[at + 1][0] <= offset:
            at += 1
        while at and pieces[at][0] > offset:
            at -= 1
        self._at = at
        self._base, self._window = pieces[at]

    def _take_up(self, pieces: Sequence[Piece]) -> None:
        self._pieces, self._at = pieces, 0
        self._base, self._window = pieces[0]

    def __iter__(self) -> Iterator[TarSample]:
        found = self._found()
        return found if self.source.fault is None else self._distrusted(found, self.source.fault.trusted)

    @staticmethod
    def _distrusted(found: Iterator[TarSample], trusted: int) -> Iterator[TarSample]:
        """Mark the samples after the byte up to which a damaged compressed stream is trusted."""
        for sample in found:
            if any(row[2] + row[1] > trusted for row in sample.fields.values()):
                sample.trouble = "beside-damage"
            yield sample

    # One loop without calls of our own, on purpose: a call a member would cost a tenth of the run.
    def _found(self) -> Iterator[TarSample]:  # noqa: C901, PLR0912, PLR0915
        end, hurt = 0, False
        prefix, length = _NO_NAME, 1  # of the current sample's members
        current, waiting = self._current, self._waiting
        for batch in self._walk:
            pieces = batch.pieces or ((batch.base, batch.window),)
            rows, at = batch.rows, 0
            self.members += len(rows)
            while at < len(rows):
                row = rows[at]
                if current is not None and not (hurt or batch.beyond or waiting):
                    key, stop = self._alike(current, rows, at, end)
                    if stop:
                        self._before = current.names or ()
                        yield current
                        names = self._names
                        current = self._current = TarSample(self._number, key, row[3])
                        self._number += 1
                        current.fields, current.names = dict(zip(names, rows[at : at + len(names)], strict=True)), names
                        current.end = end = stop
                        if self._pieces is not pieces:
                            self._take_up(pieces)
                        prefix, at = _NO_NAME, at + len(names)
                        continue
                at += 1
                name, size, data, header, kind = row
                if header == end and kind == "file" and current is not None and name.startswith(prefix):
                    field = name[length:].lower()  # nearly all members have the same key as the one before
                    if field not in current.fields and "/" not in field:
                        current.fields[field] = row
                        current.end = end = data + (size + 511 & -512)
                        if self._pieces is not pieces:
                            self._take_up(pieces)
                        if waiting:
                            waiting.clear()
                        continue
                if batch.behind and at == 1:
                    hurt = batch.behind == "damage"
                    if current is not None:
                        yield self._finish(hurt=hurt)
                    elif hurt:
                        self._damages.append(NearDamage(self._walk.gap, None))
                    current = None
                    self._after = self._damages[-1] if hurt else None
                last, gap = end, header != end
                end = data + padded(size) if kind == "file" else self._end_of(row)
                split = self._split(name, kind)
                if split is None:
                    if gap:
                        self.headers += self._global_headers(last, header)
                    continue
                key, field = split[0], split[1].lower()
                if is_junk(key) and not self._junk:
                    if current is not None:
                        self._learn(current)
                        yield self._finish()
                        current = None
                    self._waiting[why_junk(name)] += 1
                    if gap:
                        self.headers += self._global_headers(last, header)
                    continue
                if current is None or key != current.key or field in current.fields:
                    if current is not None:
                        self._learn(current)
                        yield self._finish()
                    if gap:
                        self.headers += self._global_headers(last, header)
                    current = self._begin(key, header, beyond=batch.beyond)
                    # Names that begin with underscores may be metadata, whatever the key.
                    prefix, length = (_NO_NAME if key.startswith("__") else f"{key}."), len(key) + 1
                    hurt = False
                waiting.clear()
                current.fields[field] = row
                current.end = end
                if kind == "sparse":
                    current.trouble = "sparse-member"
                if self._pieces is not pieces:
                    self._take_up(pieces)
        yield from self._last()

    def _learn(self, sample: TarSample) -> None:
        """Remember the endings of a sample's member names: nearly all samples are like the one before."""
        rows = sample.fields.values()
        if len(rows) <= _MOST_ALIKE and not sample.trouble and all(row[4] == "file" for row in rows):
            self._names = tuple(sample.fields)
            self._endings = [row[0][len(sample.key) :] for row in rows]
            sample.names = self._names

    def _alike(self, current: TarSample, rows: list[Row], at: int, end: int) -> tuple[str, int]:
        """Return key and end of the next sample if it begins at ``end`` and has the same fields as the current one.

        This is a fast path with the same result as looking at each member; if it does not apply, the end is 0.
        """
        names, endings = self._names, self._endings
        if current.names is not names or current.trouble:
            if current.trouble or len(current.fields) != len(names) or tuple(current.fields) != names:
                return "", 0
            current.names = names
        key = rows[at][0][: -len(endings[0])]
        if at + len(names) > len(rows) or not key or "." in key or key.startswith("__") or "__MACOSX/" in key:
            return "", 0
        for ending in endings:
            name, size, data, header, kind = rows[at]
            if header != end or kind != "file" or name != key + ending:
                return "", 0
            end = data + (size + 511 & -512)
            at += 1
        return key, end

    def _begin(self, key: str, header: int, *, beyond: bool) -> TarSample:
        sample = self._current = TarSample(self._number, key, header)
        self._number += 1
        if beyond and self.headers:
            sample.trouble = "behind-global-header"
        if self._waiting:
            self.left_out += self._waiting
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
        if self._left_out and all(map(is_harmless, self.damage)):  # two blocks of zeros pass for an end mark
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
            self._left_out = self._left_out or f"at byte {sample.start:,} a sample lacks members: {sample.key}"
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
            others = Samples(self.source, contents=False, keep=False, junk=self._junk)
            others._surveys = True
            known, least = set(), sys.maxsize
            for other in others:
                if not other.trouble:
                    known.add(tuple(other.fields))
                    least = min(least, other.end - other.start)
            self._losers = losers(others._damages, known, least)
        return sample.number in self._losers

    def _end_of(self, row: Row) -> int:
        """Return the end of a member that is not a plain file."""
        try:
            return max(read_entry(self.source.read_at, row[3], {}).next, row[2])
        except Ending:
            return row[2]

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
