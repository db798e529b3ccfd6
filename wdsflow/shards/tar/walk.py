"""Our own walk over a tar: names, sizes and offsets, reading as little else as its source allows.

Up to the byte at which Python's ``tarfile.open(mode="r|*")`` stops, the walk delivers what tarfile
delivers, and reports how tarfile ends there. Then it continues: it looks for further headers, so
that losses of readers can be counted.
"""

from collections.abc import Iterator

from wdsflow.shards.source.base import Source, StreamFault

from .header_search import search
from .lost_members import HeaderGap, lost_between
from .members import GapKind, Member, MemberBatch, Occurrences, Stop, StopKind
from .plain_entries import HUGE, SPAN, Row, Skimmer
from .tar_entry import Entry, NoEntry, read_entry
from .tar_header import BLOCK, OTHER, TIMES, decode_number, is_header, looks_like, padded
from .windows import Windows

__all__ = ["Member", "MemberBatch", "Occurrences", "Row", "Stop", "Walk"]

# tarfile and GNU tar fill the last record with zeros; some tars have larger records.
_RECORDS = 20 * BLOCK, 64 * BLOCK
# Signs of a cut stream.
_CUT = {"tar.cut-stream", "tar.truncated-data", "tar.truncated-header"}
_BACK_TO_START = "a negative size leads back to the start, which tarfile takes for the end"
NOT_TAR = "not a tar: looks like "
# Bytes searched for a header where the first one is damaged.
_SEARCH = 64 << 20


class Walk:
    """Iterate over a tar in batches, once.

    ``stop``, ``seen``, ``lost`` and ``ended`` are complete when the iteration has ended.

    With ``contents``, members of up to 512 KiB are wholly in the window of their batch, and larger
    ones can be read by ``read`` until the next batch is requested. Without, and with ``keep``, a
    batch has the pieces that were read to find its members: small ones are in them, and of others
    the first few KiB; with ``ends``, nearly always the first 4 KiB and the last 32 bytes.
    """

    def __init__(
        self, source: Source, *, contents: bool = False, keep: bool = False, ends: bool = False
    ) -> None:
        self.stop: Stop | None = None
        self.seen: dict[str, Occurrences] = {}
        # Names of members with incomplete contents.
        self.lost: set[str] = set()
        # The last member is before an end mark.
        self.ended = False
        # The known part of the damage before the latest batch, or at the end.
        self.gap = HeaderGap()
        # No end mark, though readers stop there.
        self.zeros = Occurrences(0, None, "zeros are in the place of a header")
        # A global header has changed names or sizes of the members after it.
        self.global_records = False
        self._source = source
        self._skim = Skimmer()
        self._windows = Windows(source, self._skim, contents=contents, keep=keep, ends=ends)
        self._rows: list[Row] = []
        # Global PAX records.
        self._shared: dict[str, str] = {}
        # Members are after the byte at which tarfile stops.
        self._beyond = False
        # Some header has the ustar magic.
        self._has_magic = False
        # Some batch has been delivered.
        self._delivered = False
        # The first block.
        self._first_block = b""
        # What is before the next batch.
        self._gap_before: GapKind = ""
        # Where the latest archive begins.
        self._archive = 0
        # Where the latest end or damage begins, and whether it is an end mark.
        self._hole = 0
        self._end_mark = False

    def read(self, member: Row, start: int = 0, size: int | None = None) -> bytes:
        """Return contents of a member of the latest batch.

        Without a size, everything from ``start`` on is returned.

        Of members over 32 MiB in compressed shards only the first MiB can be had; holes are left
        out. Raises ``OSError``.
        """
        rest = member[1] - start
        if size is None or size > rest:
            size = rest
        return self._windows.read_contents(member[2] + start, max(0, size))

    def __iter__(self) -> Iterator[MemberBatch]:
        yield from self._read_all()
        fault = self._source.fault
        # Otherwise nothing was read that could be wrong.
        if self._delivered:
            try:
                self._source.drain()
                fault = self._source.fault
            except OSError as error:
                fault = StreamFault(0, f"its end cannot be read: {error}")
        if fault is not None:
            self._count_fault("tar.damaged-stream", fault.trusted, None, str(fault))

    def _read_all(self) -> Iterator[MemberBatch]:
        skim = self._skim
        windows = self._windows
        source = self._source
        try:
            windows.load(0)
            self._first_block = skim.window[:BLOCK]
            while True:
                if not self._take_plain():
                    yield from self._batch()
                    windows.load(skim.base + skim.at, windows.least)
                    continue
                try:
                    entry = read_entry(windows.read, skim.base + skim.at, self._shared)
                except NoEntry as ending:
                    yield from self._batch()
                    start = self._end(ending)
                else:
                    missing = windows.window_for(entry)
                    if missing is not None:
                        yield from self._batch()
                        windows.load(*missing)
                    start = self._take(entry)
                    if start is None:
                        if windows.advance(entry.next, len(self._rows)):
                            yield from self._batch()
                            windows.load(entry.next)
                        continue
                    yield from self._batch()
                if start is None or not self._resume(start):
                    if source.is_truncated and not self.seen.keys() & _CUT:
                        self._count_fault(
                            "tar.cut-stream", source.length or 0, None, source.damage or ""
                        )
                    return
        except OSError as error:
            yield from self._batch()
            kind: StopKind = "error" if self._delivered else "unreadable"
            self._set_stop(kind, skim.base + skim.at, str(error))

    def _take_plain(self) -> bool:
        """Collect plain entries; return whether the next one needs care.

        Otherwise a window has to be loaded.
        """
        skim = self._skim
        windows = self._windows
        rows = self._rows
        before = len(rows)
        careful = skim.run(rows, windows.refill, windows.full, windows.length)
        # Others count for themselves.
        if self._source.fd >= 0:
            self._source.bytes_read += skim.fetched
        skim.fetched = 0
        if not careful and windows.refill is None:
            careful = windows.drop_incomplete(rows)
        if not self._beyond:
            if skim.alone:
                first = next(row for row in rows[before:] if row[2] - row[3] == SPAN)
                self._count_fault("tar.pax-overhead", first[3], first[0], "", skim.alone)
            for row in skim.huge:
                self._count_fault("tar.huge-member", row[3], row[0], f"{row[1]:,} bytes")
        skim.alone = 0
        skim.huge.clear()
        return careful

    def _batch(self) -> Iterator[MemberBatch]:
        rows = self._rows
        skim = self._skim
        windows = self._windows
        windows.end_batch(len(rows), skim.base + skim.at)
        if not rows:
            return
        self._rows = []
        self._delivered = True
        yield MemberBatch(
            rows, skim.window, skim.base, self._beyond, windows.pieces, self._gap_before
        )
        self._gap_before = ""
        # The window may hold the start of the next member.
        windows.pieces = windows.pieces[-1:]

    def _take(self, entry: Entry) -> int | None:
        """Deliver an entry; return where to search on if tarfile cannot continue after it."""
        reaches = self._windows.reaches
        end = entry.next
        self._learn(entry)
        # webdataset reads files only: nothing of other kinds
        # can be lost, but sparse ones must be complete.
        position = entry.tell
        if entry.kind == "sparse":
            is_complete = reaches(end)
        elif entry.kind == "file" and entry.size > 0:
            position = entry.data + entry.size
            is_complete = reaches(position)
        else:
            is_complete = True
        if is_complete:
            self._accept(entry)
        else:
            self.lost.add(entry.name)
            position = self._windows.end()
        if end == position or (end > position and reaches(end)):
            return None
        if end and not reaches(end):
            return self._end_inside(entry, is_complete=is_complete)
        if end:
            problem = "a size sends the reader backwards"
            self._set_stop("error", entry.header, problem)
        else:
            problem = _BACK_TO_START
            self._set_stop("silent", entry.header, problem)
        self._count_fault("tar.bad-header", entry.header, entry.name, problem)
        return max(entry.tell, position)

    def _end_inside(self, entry: Entry, *, is_complete: bool) -> int:
        """Note that the file ends inside an entry; return the position to search from.

        If the entry is complete, the file ends inside its padding.
        """
        name = "tar.truncated-data"
        part = f"its {entry.size:,} bytes"
        if is_complete:
            name = "tar.no-padding"
            part = f"the padding of {part}"
        detail = self._source.damage or f"the file ends inside {part}"
        self._count_fault(name, entry.header, entry.name, detail)
        self._set_stop("error", entry.header, detail)
        if self._source.is_seekable:
            return entry.tell
        return max(entry.tell, self._windows.end())

    def _learn(self, entry: Entry) -> None:
        """Teach the skimmer the headers of a plain entry."""
        view = self._windows.read
        skim = self._skim
        last = view(entry.data - BLOCK, BLOCK)
        self._has_magic = self._has_magic or last[257:262] == b"ustar"
        if not TIMES.issuperset(self._shared.keys() - {OTHER}):
            self.global_records = True
            # A global record changes all names or sizes.
            skim.forget()
        elif entry.kind == "file" and entry.size >= 0 and not entry.depth:
            skim.learn(last)
        elif (
            entry.kind == "file"
            and entry.depth == 1
            and entry.only_times
            and entry.data - entry.header == SPAN
        ):
            skim.learn(last)
            skim.learn_time(view(entry.header, BLOCK), view(entry.header + BLOCK, BLOCK))

    def _accept(self, entry: Entry) -> None:
        size = max(0, entry.size)
        self._rows.append((entry.name, size, entry.data, entry.header, entry.kind))
        if self._beyond:
            return
        if entry.kind != "file":
            self._count_fault(f"tar.{entry.kind}", entry.header, entry.name, "")
        if size > HUGE:
            self._count_fault("tar.huge-member", entry.header, entry.name, f"{size:,} bytes")
        if entry.only_times:
            self._count_fault("tar.pax-overhead", entry.header, entry.name, "")

    def _end(self, ending: NoEntry) -> int | None:
        """Note how the archive ends here; return where to search on, None if that is useless."""
        why = ending.why
        offset = ending.offset
        source = self._source
        if why == "end":
            self._set_stop("end", offset, "")
            return ending.resume
        if offset == 0 and not self._beyond:
            return self._end_at_start(ending)
        if source.raises_at_end and why in ("eof", "cut", "error"):
            self._set_stop("error", offset, source.damage or "damaged")
        elif why == "eof":
            name = "tar.cut-stream" if source.is_truncated else "tar.no-end-blocks"
            self._count_fault(name, offset, None, source.damage or "")
            self._set_stop("eof", offset, source.damage or "no end mark")
        elif why == "cut":
            detail = source.damage or ending.detail
            self._count_fault("tar.truncated-header", offset, None, detail)
            self._set_stop("silent", offset, detail)
        else:
            has_more = self._windows.reaches(ending.resume + 1)
            name = "tar.bad-header" if has_more else "tar.truncated-header"
            self._count_fault(name, offset, None, ending.detail)
            self._set_stop("silent" if why == "bad" else "error", offset, ending.detail)
        return ending.resume

    def _end_at_start(self, ending: NoEntry) -> int | None:
        """Note that the first header cannot be read; return the position to search from.

        None if a search is useless.
        """
        if not self._first_block:
            self._set_stop("unreadable", 0, self._source.damage or "empty file")
            return None
        other_format = looks_like(self._first_block)
        if other_format:
            self._set_stop("unreadable", 0, f"{NOT_TAR}{other_format}")
            return None
        detail = ending.detail
        if len(self._first_block) == BLOCK and is_header(self._first_block, old=True):
            detail = f"its first member cannot be read: {detail}"
        self._set_stop("unreadable", 0, self._source.damage or detail)
        return ending.resume

    def _resume(self, start: int) -> bool:
        """Go to the next valid header from ``start`` on; False if there is none."""
        if self.stop is None:
            return False
        self._source.continue_past_end()
        until = _SEARCH if self.stop.kind == "unreadable" and not self._beyond else None
        view = self._windows.read
        result = search(view, start, old=not self._has_magic, until=until)
        gap = HeaderGap()
        if self._source.is_seekable:
            gap = lost_between(view, self._hole, result.header)
        # The name of the member was in a header before it.
        if result.header is not None and gap.unnamed:
            size = decode_number(view(result.header, BLOCK)[124:136])
            after = result.header + BLOCK + padded(max(0, size))
            result = search(view, after, old=not self._has_magic, until=until)
            gap = lost_between(view, self._hole, result.header)
        # If no member follows the damage before, it is one with this.
        if self._gap_before:
            gap = HeaderGap(self.gap.lost + gap.lost, size=self.gap.size + gap.size)
        self.gap = gap
        after_end_mark = self._end_mark
        self._end_mark = False
        if result.header is None:
            if after_end_mark:
                self._note_after_end(result.junk)
            return False
        is_whole_archive = after_end_mark and self._is_end(result.header, result.junk)
        if is_whole_archive and self._gap_before != "damage":
            self._gap_before = "archive"
        else:
            self._gap_before = "damage"
        if after_end_mark:
            if not is_whole_archive:
                self._note_zeros()
            self._archive = result.header
            self._shared.clear()
            self._count_fault("tar.second-archive", result.header, None, "")
        elif self.stop.kind == "unreadable" and not self._beyond:
            self._count_fault("tar.bad-header", 0, None, self.stop.detail)
        self._beyond = True
        self._windows.load(result.header)
        return True

    def _note_after_end(self, junk: int | None) -> None:
        """Note what follows the last end mark; ``junk`` is the first block that is not zero."""
        self.ended = junk != self._hole + BLOCK
        if not self.ended:
            self._note_zeros()
        if junk is not None:
            block = self._windows.read(junk, BLOCK)
            self._count_fault("tar.trailing-data", junk, None, looks_like(block))

    def _is_end(self, header: int, junk: int | None) -> bool:
        """Return whether the zeros before a header are those of an archive that ends.

        Zeros in the place of members are seldom two blocks, and seldom end where a record would.
        """
        if junk != header:
            return False
        zeros = (header - self._hole) // BLOCK
        if zeros == 2:
            return True
        return zeros > 2 and any((header - self._archive) % size == 0 for size in _RECORDS)

    def _set_stop(self, kind: StopKind, offset: int, detail: str) -> None:
        """Fix the stop where tarfile meets its first end."""
        self._end_mark = kind == "end"
        self._hole = offset
        if self.stop is None:
            self.stop = Stop(kind, offset, detail)

    def _note_zeros(self) -> None:
        """Note that an end mark is not one: zeros have replaced a header."""
        if not self.zeros.count:
            self.zeros.offset = self._hole
        self.zeros.count += 1

    def _count_fault(
        self, fault: str, offset: int, name: str | None, detail: str, count: int = 1
    ) -> None:
        """Count a fault of the archive, or of a member with a name."""
        seen = self.seen.get(fault)
        if seen is None:
            seen = self.seen[fault] = Occurrences(offset, name, detail)
        seen.count += count
