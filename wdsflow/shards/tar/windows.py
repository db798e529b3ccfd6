"""How a tar is read: in windows, in clusters of headers, or by hops from header to header."""

from collections.abc import Callable
from functools import partial
from os import pread
from typing import TYPE_CHECKING

from wdsflow.shards.source.base import HISTORY, Source

from .plain_entries import HUGE, Row, Skimmer
from .tar_entry import Entry
from .tar_header import BLOCK

if TYPE_CHECKING:
    from .members import Piece

# With contents: members up to this size are wholly in the window.
INSIDE = 512 << 10
# The same where the source can only be read forward.
INSIDE_STREAM = 32 << 20

# Bytes that are read at a time, with contents: from files; from what can only be read forward.
_WINDOW = 256 << 10
_STREAM = 1 << 20
# Names only: many small members.
_MANY = 64 << 10
# Names only: the headers of a sample between large members.
_CLUSTER = 6 << 10
# As ``_CLUSTER``, with 4 KiB of the member after it.
_CLUSTER_ENDS = 11 << 10
# From header to header: names only, with contents.
_HOP = 8 << 10
_HOP_CONTENTS = 16 << 10
# Bytes at the end of a member that ``ends`` keeps.
_LAST = 32
# Mean bytes of members up to which all is read, names only.
_SMALL = 6 << 10
# Mean bytes of members from which on reading hops, names only.
_FAR = 128 << 10
# Bytes of tar in one batch, names only.
_BATCH = 4 << 20
# Rows of a batch, names only.
_FEWEST_ROWS = 16
_MOST_ROWS = 1024
# Members to which the mean size adapts.
_ADAPTS = 12


class Windows:
    """Chooses by the mean size of members how to read, and keeps the skimmer supplied.

    Reading 20 KB members header by header from a cold disk is ten times slower than reading all;
    reading 1.6 MB members as a whole is five times slower than hopping. Between the two, without
    contents, the kernel is advised to read ahead and only the clusters of headers are copied.
    """

    def __init__(
        self,
        source: Source,
        skim: Skimmer,
        *,
        contents: bool,
        keep: bool = False,
        ends: bool = False,
    ) -> None:
        self.source = source
        self.skim = skim
        self.contents = contents
        self.keep = keep and not contents
        self.ends = ends and self.keep
        # Between the end of a member and the next header is padding.
        skim.lead = _LAST + BLOCK if self.ends else 0
        # Windows since the latest batch, if they are kept.
        self.pieces: list[Piece] = []
        self.inside = INSIDE if source.is_seekable else INSIDE_STREAM
        self.length = source.length or 0
        # Bytes that are read at a time; set by ``_choose``.
        self.step = 0
        # Rows of a batch, names only.
        self.full = _FEWEST_ROWS
        self.refill: Callable[[int], bytes] | None = None
        # Bytes that the latest window was to have.
        self.requested = 0
        # Bytes that the next window must have.
        self.least = 0
        # Bytes of an entry on average.
        self.mean = 0.0
        # Where the latest batch ended.
        self._batch_end = 0
        # Up to where the kernel was advised to read ahead.
        self._advised = 0
        self._hopping = False
        self._choose()

    def load(self, offset: int, least: int = 0) -> None:
        """Let the window start at ``offset`` and have ``least`` bytes if the tar has them."""
        skim = self.skim
        size = max(self.step, least)
        if not skim.base <= offset <= offset + size <= skim.base + len(skim.window):
            skim.window = self.source.read_at(offset, size)
            if self.keep:
                self.pieces.append((offset, skim.window))
        else:
            start = offset - skim.base
            skim.window = skim.window[start : start + size]
        skim.base = offset
        skim.at = 0
        self.requested = size

    def window_for(self, entry: Entry) -> tuple[int, int] | None:
        """Return the start and the minimum size of a window that holds an entry.

        None if the current window does.

        Long extended headers stay outside: they may be larger than memory.
        """
        if not self.contents or entry.kind != "file" or entry.size <= 0:
            return None
        required = entry.size
        if entry.size > self.inside:
            # A stream cannot be read later.
            required = 0 if self.source.is_seekable else _STREAM
        start = entry.header
        if entry.data - entry.header > HISTORY // 2:
            start = entry.data - BLOCK
        end = entry.data + required
        window_end = self.skim.base + len(self.skim.window)
        if self.skim.base <= start <= end <= window_end:
            return None
        return start, end - start

    def drop_incomplete(self, rows: list[Row]) -> bool:
        """Take back the last row if its contents are incomplete.

        They should be in the window and are not, or they are not in the file.

        Sets ``least`` for the next window; returns whether the row has to be read with care
        instead.
        """
        skim = self.skim
        self.least = 0
        if skim.at <= len(skim.window):
            return False
        last = rows[-1]
        _, size, data, header, _ = last
        entry_end = skim.base + skim.at
        is_outside = data + size > skim.base + len(skim.window)
        belongs_inside = size <= self.inside
        if not (is_outside and belongs_inside) and entry_end <= self.length:
            if size > HUGE:
                skim.huge.append(last)
            return False
        least = entry_end - header
        skim.at = header - skim.base
        skim.alone -= skim.window.startswith(skim.latest[0], skim.at)
        rows.pop()
        if not is_outside or not belongs_inside:
            return True
        if skim.at == 0 and self.requested >= least:
            # A window that begins with it does not have it: the tar ends inside.
            return True
        self.least = least
        return False

    def advance(self, offset: int, rows: int) -> bool:
        """Move on to ``offset``; return whether a batch is due before a window is loaded there."""
        skim = self.skim
        skim.at = offset - skim.base
        if self.contents:
            return skim.at > len(skim.window)
        if skim.at > len(skim.window):
            skim.window = b""
            skim.base = offset
            skim.at = 0
        return rows >= self.full

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes from the window, otherwise from the source."""
        start = offset - self.skim.base
        if start >= 0 and start + size <= len(self.skim.window):
            return self.skim.window[start : start + size]
        return self.source.read_at(offset, size)

    def read_contents(self, offset: int, size: int) -> bytes:
        """Return contents; after a stream has passed them, only those in the window."""
        if self.source.is_seekable:
            return self.read(offset, size)
        start = offset - self.skim.base
        if start < 0:
            return b""
        return self.skim.window[start : start + max(0, size)]

    def reaches(self, end: int) -> bool:
        """Return whether the tar has that many bytes."""
        return end <= self.skim.base + len(self.skim.window) or self.source.reaches(end)

    def end(self) -> int:
        """Return how many bytes the tar has, after ``reaches`` returned False."""
        return 1 << 62 if self.source.length is None else self.source.length

    def end_batch(self, members: int, position: int) -> None:
        """Estimate the size of members from a batch, and choose how to continue."""
        if members and position > self._batch_end:
            mean = (position - self._batch_end) / members
            if self.mean:
                self.mean += (mean - self.mean) * members / (members + _ADAPTS)
            else:
                self.mean = mean
            self._choose()
        self._batch_end = position
        if self.source.fd >= 0 and not self._hopping and position + 2 * _BATCH > self._advised:
            self._advised = max(position, self._advised)
            self.source.prefetch(self._advised, 2 * _BATCH)
            self._advised += 2 * _BATCH

    def _choose(self) -> None:
        source = self.source
        far = self.mean >= (INSIDE // 2 if self.contents else _FAR)
        self.step = self._step(far=far)
        if not self.contents:
            self.full = _FEWEST_ROWS
            if self.mean:
                self.full = max(_FEWEST_ROWS, min(_MOST_ROWS, int(_BATCH / self.mean)))
            self.refill = self._read
            if not self.keep and source.fd >= 0:
                # Without a call of our own.
                self.refill = partial(pread, source.fd, self.step)
        if far != self._hopping and source.advise_random_reads(far):
            self._hopping = far

    def _step(self, *, far: bool) -> int:
        """Return how many bytes are read at a time; ``far``: headers are far from each other."""
        source = self.source
        if not source.is_seekable:
            return _STREAM
        if self.contents:
            return _HOP_CONTENTS if far else _WINDOW
        if source.fd < 0 and not source.has_cheap_reads:
            # The source itself reads ahead where nothing is left out.
            return _HOP_CONTENTS if far else _MANY
        if far:
            return _HOP
        if self.mean < _SMALL:
            return _MANY
        if self.ends:
            return _CLUSTER_ENDS
        return _HOP if self.keep else _CLUSTER

    def _read(self, offset: int) -> bytes:
        fd = self.source.fd
        data = pread(fd, self.step, offset) if fd >= 0 else self.source.read_at(offset, self.step)
        if self.keep:
            self.pieces.append((offset, data))
        return data
