"""Our own walk over a tar: names, sizes and offsets, reading as little else as its source allows.

Up to the place where Python's ``tarfile.open(mode="r|*")`` stops, the walk delivers what tarfile
delivers, and reports how tarfile ends there. Then it continues: it looks for further headers, so
that losses of readers can be counted.
"""

from collections.abc import Iterator

from wdsflow.shards.source.base import Source, StreamFault

from .header_search import search
from .lost_members import HeaderGap, lost_between
from .members import Behind, Member, MemberBatch, Seen, Stop, StopKind
from .plain_entries import HUGE, SPAN, Row, Skimmer
from .tar_entry import Ending, Entry, read_entry
from .tar_header import BLOCK, OTHER, TIMES, is_header, looks_like, number, padded
from .windows import Windows

__all__ = ["Member", "MemberBatch", "Row", "Seen", "Stop", "Walk"]

# tarfile and GNU tar fill the last one with zeros; some tars have larger ones.
_RECORDS = 20 * BLOCK, 64 * BLOCK
# Signs of a cut stream.
_CUT = {"tar.cut-stream", "tar.truncated-data", "tar.truncated-header"}
_BACK_TO_START = "a negative size leads back to the start, which tarfile takes for the end"
NOT_TAR = "not a tar: looks like "
# Bytes searched for a header where the first one is damaged.
_SEARCH = 64 << 20


class Walk:
    """Iterate over a tar in batches, once. ``stop``, ``seen``, ``lost`` and ``ended`` are complete when the iteration has ended.

    With ``contents``, members of up to 512 KiB are wholly in the window of their batch, and larger
    ones can be read by ``read`` until the next batch is asked for. Without, and with ``keep``, a
    batch has the pieces that were read to find its members: small ones are in them, and of others
    the first few KiB; with ``ends``, nearly always the first 4 KiB and the last 32 bytes.
    """

    def __init__(
        self, source: Source, *, contents: bool = False, keep: bool = False, ends: bool = False
    ) -> None:
        self.stop: Stop | None = None
        self.seen: dict[str, Seen] = {}
        # Names of members with incomplete contents.
        self.lost: set[str] = set()
        # The last member is before an end mark.
        self.ended = False
        # The known part of the damage before the latest batch, or at the end.
        self.gap = HeaderGap()
        # No end mark, though readers stop there.
        self.zeros = Seen(0, None, "zeros are in the place of a header")
        # A global header has changed names or sizes of the members after it.
        self.global_records = False
        self._source, self._skim = source, Skimmer()
        self._windows = Windows(source, self._skim, contents=contents, keep=keep, ends=ends)
        self._rows: list[Row] = []
        # Global PAX records.
        self._shared: dict[str, str] = {}
        self._beyond = self._magic = self._some = self._end_mark = False
        # Block.
        self._first = b""
        self._behind: Behind = ""
        # Where the latest archive begins.
        self._archive = 0
        # Where the latest end or damage begins.
        self._hole = 0

    def read(self, member: Row, start: int = 0, size: int | None = None) -> bytes:
        """Return contents of a member of the latest batch; all from ``start`` on where no size is given.

        Of members over 32 MiB in compressed shards only the first MiB can be had; holes are left
        out. Raises ``OSError``.
        """
        rest = member[1] - start
        return self._windows.contents_at(
            member[2] + start, max(0, rest if size is None else min(rest, size))
        )

    def __iter__(self) -> Iterator[MemberBatch]:
        yield from self._read_all()
        fault = self._source.fault
        # Otherwise nothing was read that could be wrong.
        if self._some:
            try:
                self._source.drain()
                fault = self._source.fault
            except OSError as error:
                fault = StreamFault(0, f"its end cannot be read: {error}")
        if fault is not None:
            self._see("tar.damaged-stream", fault.trusted, None, str(fault))

    def _read_all(self) -> Iterator[MemberBatch]:
        skim, windows, source = self._skim, self._windows, self._source
        try:
            windows.load(0)
            self._first = skim.window[:BLOCK]
            while True:
                if not self._quick():
                    yield from self._batch()
                    windows.load(skim.base + skim.at, windows.least)
                    continue
                try:
                    entry = read_entry(windows.view, skim.base + skim.at, self._shared)
                except Ending as ending:
                    yield from self._batch()
                    start = self._ended(ending)
                else:
                    if missing := windows.missing(entry):
                        yield from self._batch()
                        windows.load(*missing)
                    start = self._take(entry)
                    if start is None:
                        if windows.go(entry.next, len(self._rows)):
                            yield from self._batch()
                            windows.load(entry.next)
                        continue
                    yield from self._batch()
                if not self._resume(start):
                    if source.cut and not self.seen.keys() & _CUT:
                        self._see("tar.cut-stream", source.length or 0, None, source.damage or "")
                    return
        except OSError as error:
            yield from self._batch()
            self._halt("error" if self._some else "unreadable", skim.base + skim.at, str(error))

    def _quick(self) -> bool:
        """Collect plain entries; return whether the next one needs care, otherwise a window has to be loaded."""
        skim, windows, rows = self._skim, self._windows, self._rows
        before = len(rows)
        careful = skim.run(rows, windows.refill, windows.full, windows.length)
        # Others count for themselves.
        if self._source.fd >= 0:
            self._source.bytes_read += skim.fetched
        skim.fetched = 0
        if not careful and windows.refill is None:
            careful = windows.cut_back(rows)
        if not self._beyond:
            if skim.alone:
                first = next(row for row in rows[before:] if row[2] - row[3] == SPAN)
                self._see("tar.pax-overhead", first[3], first[0], "", skim.alone)
            for row in skim.huge:
                self._see("tar.huge-member", row[3], row[0], f"{row[1]:,} bytes")
        skim.alone = 0
        skim.huge.clear()
        return careful

    def _batch(self) -> Iterator[MemberBatch]:
        rows, skim = self._rows, self._skim
        self._windows.end_batch(len(rows), skim.base + skim.at)
        if rows:
            self._rows = []
            self._some = True
            yield MemberBatch(
                rows, skim.window, skim.base, self._beyond, self._windows.pieces, self._behind
            )
            self._behind = ""
            self._windows.pieces = self._windows.pieces[-1:]

    def _take(self, entry: Entry) -> int | None:
        """Deliver an entry; return where to search on if tarfile cannot continue after it."""
        reaches, end = self._windows.reaches, entry.next
        self._learn(entry)
        # webdataset reads files only: nothing of other kinds can be lost, but sparse ones must be
        # complete.
        if entry.kind == "sparse":
            delivered, stands = reaches(end), entry.tell
        else:
            size = entry.size if entry.kind == "file" else 0
            delivered = size <= 0 or reaches(entry.data + size)
            stands = entry.tell if size <= 0 else entry.data + size
        if delivered:
            self._accept(entry)
        else:
            self.lost.add(entry.name)
            stands = self._windows.end()
        if end == stands or (end > stands and reaches(end)):
            return None
        if end and not reaches(end):
            what = (
                f"the padding of its {entry.size:,} bytes"
                if delivered
                else f"its {entry.size:,} bytes"
            )
            detail = self._source.damage or f"the file ends inside {what}"
            self._see(
                "tar.no-padding" if delivered else "tar.truncated-data",
                entry.header,
                entry.name,
                detail,
            )
            self._halt("error", entry.header, detail)
            return entry.tell if self._source.random else max(entry.tell, self._windows.end())
        problem = "a size sends the reader backwards" if end else _BACK_TO_START
        self._see("tar.bad-header", entry.header, entry.name, problem)
        self._halt("error" if end else "silent", entry.header, problem)
        return max(entry.tell, stands)

    def _learn(self, entry: Entry) -> None:
        """Teach the quick way the headers of a plain entry."""
        view, skim = self._windows.view, self._skim
        last = view(entry.data - BLOCK, BLOCK)
        self._magic = self._magic or last[257:262] == b"ustar"
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
            self._see(f"tar.{entry.kind}", entry.header, entry.name, "")
        if size > HUGE:
            self._see("tar.huge-member", entry.header, entry.name, f"{size:,} bytes")
        if entry.only_times:
            self._see("tar.pax-overhead", entry.header, entry.name, "")

    def _ended(self, ending: Ending) -> int | None:
        """Note how the archive ends here; return where to search on, None if that is useless."""
        why, offset, detail, source = ending.why, ending.offset, ending.detail, self._source
        if why == "end":
            self._halt("end", offset, "")
            return ending.resume
        if offset == 0 and not self._beyond:
            looks = looks_like(self._first)
            missing = ending.detail if self._first else "empty file"
            if len(self._first) == BLOCK and is_header(self._first, old=True):
                missing = f"its first member cannot be read: {missing}"
            self._halt("unreadable", 0, f"{NOT_TAR}{looks}" if looks else source.damage or missing)
            return None if looks or not self._first else ending.resume
        if source.breaks and why in ("eof", "cut", "error"):
            self._halt("error", offset, source.damage or "damaged")
        elif why == "eof":
            self._see(
                "tar.cut-stream" if source.cut else "tar.no-end-blocks",
                offset,
                None,
                source.damage or "",
            )
            self._halt("eof", offset, source.damage or "no end mark")
        elif why == "cut":
            self._see("tar.truncated-header", offset, None, source.damage or detail)
            self._halt("silent", offset, source.damage or detail)
        else:
            name = (
                "tar.bad-header"
                if self._windows.reaches(ending.resume + 1)
                else "tar.truncated-header"
            )
            self._see(name, offset, None, detail)
            self._halt("silent" if why == "bad" else "error", offset, detail)
        return ending.resume

    def _resume(self, start: int | None) -> bool:
        """Go to the next valid header from ``start`` on; False if there is none."""
        if start is None or self.stop is None:
            return False
        self._source.lift()
        until = _SEARCH if self.stop.kind == "unreadable" and not self._beyond else None
        view = self._windows.view
        found = search(view, start, old=not self._magic, until=until)
        more = lost_between(view, self._hole, found.header) if self._source.random else HeaderGap()
        # Its name was in a header before it.
        if found.header is not None and more.unnamed:
            after = (
                found.header + BLOCK + padded(max(0, number(view(found.header, BLOCK)[124:136])))
            )
            found = search(view, after, old=not self._magic, until=until)
            more = lost_between(view, self._hole, found.header)
        # If no member was found since the damage before, it is one with this.
        self.gap = (
            HeaderGap(self.gap.lost + more.lost, size=self.gap.size + more.size)
            if self._behind
            else more
        )
        ended = self._end_mark
        self._end_mark = False
        if found.header is None:
            self.ended = ended and found.junk != self._hole + BLOCK
            if ended and not self.ended:
                self._see_zeros()
            if ended and found.junk is not None:
                self._see(
                    "tar.trailing-data", found.junk, None, looks_like(view(found.junk, BLOCK))
                )
            return False
        # Zeros in the place of members are seldom two blocks, and seldom end where a record would.
        zeros = (found.header - self._hole) // BLOCK if ended and found.junk == found.header else 0
        whole = zeros == 2 or (
            zeros > 2 and any((found.header - self._archive) % size == 0 for size in _RECORDS)
        )
        self._behind = "archive" if whole and self._behind != "damage" else "damage"
        if ended and not whole:
            self._see_zeros()
        if ended:
            self._archive = found.header
            self._shared.clear()
            self._see("tar.second-archive", found.header, None, "")
        elif self.stop.kind == "unreadable" and not self._beyond:
            self._see("tar.bad-header", 0, None, self.stop.detail)
        self._beyond = True
        self._windows.load(found.header)
        return True

    def _halt(self, kind: StopKind, offset: int, detail: str) -> None:
        """Fix the stop where tarfile meets its first end."""
        self._end_mark, self._hole = kind == "end", offset
        if self.stop is None:
            self.stop = Stop(kind, offset, detail)

    def _see_zeros(self) -> None:
        """Note that an end mark is not one: zeros have replaced a header."""
        self.zeros.offset = self.zeros.offset if self.zeros.count else self._hole
        self.zeros.count += 1

    def _see(self, what: str, offset: int, name: str | None, detail: str, count: int = 1) -> None:
        seen = self.seen.get(what)
        if seen is None:
            seen = self.seen[what] = Seen(offset, name, detail)
        seen.count += count
