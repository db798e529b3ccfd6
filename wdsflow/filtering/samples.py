"""The samples of one shard, each with the range of the tar that it takes up."""

from collections import Counter
from collections.abc import Iterator

from wdsflow.shards.entry import Ending, read_entry
from wdsflow.shards.fast import Row
from wdsflow.shards.header import BLOCK, BadHeader, padded, parse_header
from wdsflow.shards.names import is_meta, split_name
from wdsflow.shards.source import Source, SourceError
from wdsflow.shards.tar import Walk

Range = tuple[int, int]  # first byte, byte behind the last

_NO_NAME = "\0"  # what no name begins with
_LARGEST_GAP = 1 << 20  # bytes searched for global headers where the walk found something to skip
NO_END_MARK = "the end mark is missing"  # nothing is lost by that
_TROUBLE = {
    "tar.truncated-data": "the contents of a member are cut",
    "tar.truncated-header": "the file ends inside a header",
    "tar.bad-header": "a header is damaged",
    "tar.no-end-blocks": NO_END_MARK,
}


class Sample:
    """Neighbouring members of one key, by webdataset's rule, as one range of the tar."""

    __slots__ = ("end", "fields", "key", "number", "start", "trouble")

    def __init__(self, number: int, key: str, start: int) -> None:
        self.number, self.key, self.start, self.end = number, key, start, start
        self.fields: dict[str, Row] = {}  # lower case name -> member
        self.trouble = ""  # a slug where the tar itself is at fault


class Samples:
    """Iterate over the samples of a tar, once; what is no sample is counted, and complete when the iteration ends.

    A range begins at the first header of the first member, extended headers included, and ends behind the padding of
    the last. As OpenCLIP reads, a field that comes twice begins another sample. Members that belong to no sample
    (folders, links, names without extension, metadata) are counted in ``left_out``, unless they lie inside a sample.
    The iteration raises SourceError where there is no tar at all, OSError where the disk does.
    """

    def __init__(self, source: Source, *, contents: bool) -> None:
        self.source = source
        self.members = 0
        self.left_out: Counter[str] = Counter()
        self.headers: list[Range] = []  # global PAX headers outside of samples: they hold for all that follows
        self.damage: list[str] = []
        self.window, self.base = b"", 0  # bytes of the tar around the latest members, and their offset
        self._walk = Walk(source, contents=contents)
        self._current: Sample | None = None
        self._before: dict[str, Row] | None = None  # fields of the sample before
        self._number = 0
        self._waiting: Counter[str] = Counter()  # left out, unless the sample goes on behind them

    def read(self, row: Row, start: int = 0, size: int | None = None) -> bytes:
        """Return contents of a member of the latest sample; fewer than asked for only at its end. Raises OSError."""
        rest = max(row[1] - start, 0)
        return self.peek(row[2] + start, rest if size is None or size > rest else size)

    def peek(self, offset: int, size: int) -> bytes:
        """Return bytes of the tar, from what has been read where they are in it. Raises OSError."""
        at = offset - self.base
        if at >= 0 and at + size <= len(self.window):
            return self.window[at : at + size]
        return self.source.read_at(offset, size)

    def __iter__(self) -> Iterator[Sample]:
        end, hurt = 0, False
        prefix, length = _NO_NAME, 1  # of the current sample's members
        current, waiting = self._current, self._waiting
        for batch in self._walk:
            window = batch.window, batch.base
            self.members += len(batch.rows)
            for row in batch.rows:
                name, size, data, header, kind = row
                if header == end and kind == "file" and current is not None and name.startswith(prefix):
                    field = name[length:].lower()  # nearly all members go on with the key before
                    if field not in current.fields and "/" not in field:
                        current.fields[field] = row
                        current.end = end = data + (size + 511 & -512)
                        self.window, self.base = window
                        if waiting:
                            waiting.clear()
                        continue
                gap = header != end
                if gap and batch.beyond and current is not None:
                    self._suspect(current)
                    yield self._finish()
                    current, hurt = None, True
                before, end = end, data + padded(size) if kind == "file" else self._end_of(row)
                key, suffix = self._split(name, kind)
                if key is None or suffix is None:
                    if gap:
                        self.headers += self._global_headers(before, header)
                    continue
                field = suffix.lower()
                if current is None or key != current.key or field in current.fields:
                    if current is not None:
                        yield self._finish()
                    if gap:
                        self.headers += self._global_headers(before, header)
                    current = self._begin(key, header, hurt=hurt, beyond=batch.beyond)
                    # Names with underscores in front may be metadata, whatever the key.
                    prefix, length = (_NO_NAME if key.startswith("__") else f"{key}."), len(key) + 1
                    hurt = False
                waiting.clear()
                current.fields[field] = row
                current.end = end
                if kind == "sparse" and self._walk.has_holes(row):
                    current.trouble = "sparse-member"
                self.window, self.base = window
        yield from self._last()

    def _begin(self, key: str, header: int, *, hurt: bool, beyond: bool) -> Sample:
        sample = self._current = Sample(self._number, key, header)
        self._number += 1
        sample.trouble = "beside-damage?" if hurt else ""
        if beyond and self.headers:
            sample.trouble = "behind-global-header"
        if self._waiting:
            self.left_out += self._waiting
        return sample

    def _split(self, name: str, kind: str) -> tuple[str, str] | tuple[None, None]:
        reason = ""
        if kind not in {"file", "sparse"}:
            reason = kind
        elif is_meta(name):
            reason = "metadata"
        else:
            split = split_name(name)
            if split[0] is not None:
                return split
            reason = "no-extension"
        self._waiting[reason] += 1
        return None, None

    def _last(self) -> Iterator[Sample]:
        stop = self._walk.stop
        if stop is not None and stop.kind == "unreadable" and not self.members:
            raise SourceError("io", stop.detail)
        for what, text in _TROUBLE.items():
            seen = self._walk.seen.get(what)
            if seen is not None:
                more = f", and {seen.count - 1:,} more such places" if seen.count > 1 else ""
                self.damage.append(f"at byte {seen.offset:,} {text}{f': {seen.name}' if seen.name else ''}{more}")
        if stop is not None and stop.kind in {"unreadable", "error"} and not self.damage:
            self.damage.append(f"at byte {stop.offset:,}: {stop.detail}")
        if self._current is not None:
            if self.damage:
                self._suspect(self._current)
            yield self._finish()
        self.left_out += self._waiting

    def _finish(self) -> Sample:
        sample = self._current
        assert sample is not None
        if sample.trouble == "beside-damage?":
            whole = self._before is None or sample.fields.keys() == self._before.keys()
            sample.trouble = "" if whole and self._before is not None else "beside-damage"
        if not sample.trouble:
            self._before = sample.fields
        self._current = None
        return sample

    def _suspect(self, sample: Sample) -> None:
        """Mark a sample that lies beside damage: it may have lost members, which its neighbour tells."""
        sample.trouble = sample.trouble or "beside-damage?"

    def _end_of(self, row: Row) -> int:
        """Return where a member ends that is no plain file."""
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
