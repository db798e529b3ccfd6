"""How much of a tar is read at a time: windows, clusters of headers, or hops from header to header."""

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

_WINDOW, _STREAM = 256 << 10, 1 << 20
# Names only: small members; the headers of a sample between large ones.
_MANY, _CLUSTER = 64 << 10, 6 << 10
_HOP, _HOP_CONTENTS = 8 << 10, 16 << 10
# As ``_CLUSTER``, with 4 KiB of the member after it; bytes at the end of the one before.
_ENDS, _LAST = 11 << 10, 32
# Mean bytes a member where the way of reading changes.
_SMALL, _FAR = 6 << 10, 128 << 10
# Bytes of tar in one batch, names only.
_BATCH = 4 << 20


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
        self.source, self.skim, self.contents = source, skim, contents
        self.keep = keep and not contents
        self.ends = ends and self.keep
        # The padding is between.
        skim.lead = _LAST + BLOCK if self.ends else 0
        # Windows since the latest batch, if they are kept.
        self.pieces: list[Piece] = []
        self.inside = INSIDE if source.random else INSIDE_STREAM
        self.length = source.length or 0
        self.step = _WINDOW if source.fd >= 0 else _MANY if source.random else _STREAM
        # Rows of a batch, names only.
        self.full = 16
        self.refill: Callable[[int], bytes] | None = None
        self.asked = self.least = 0
        # Bytes of an entry on average.
        self.mean = 0.0
        self._since, self._advised, self._hopping = 0, 0, False
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
        skim.base, skim.at, self.asked = offset, 0, size

    def missing(self, entry: Entry) -> tuple[int, int] | None:
        """Return where a window must start to hold an entry, and how many bytes it must have; None if this one does.

        Long extended headers stay outside: they may be larger than memory.
        """
        if not self.contents or entry.kind != "file" or entry.size <= 0:
            return None
        wanted = entry.size
        if entry.size > self.inside:
            # A stream cannot be read later.
            wanted = 0 if self.source.random else _STREAM
        start = entry.header if entry.data - entry.header <= HISTORY // 2 else entry.data - BLOCK
        short = (
            not self.skim.base
            <= start
            <= entry.data + wanted
            <= self.skim.base + len(self.skim.window)
        )
        return (start, entry.data + wanted - start) if short else None

    def cut_back(self, rows: list[Row]) -> bool:
        """Take back the last row if its contents are not in the window and should be, or are not there at all.

        Sets ``least`` for the next window; returns whether the row has to be read with care
        instead.
        """
        skim, self.least = self.skim, 0
        if skim.at <= len(skim.window):
            return False
        last = rows[-1]
        outside = last[2] + last[1] > skim.base + len(skim.window)
        if not (outside and last[1] <= self.inside) and skim.base + skim.at <= self.length:
            if last[1] > HUGE:
                skim.huge.append(last)
            return False
        least = skim.base + skim.at - last[3]
        skim.at = last[3] - skim.base
        skim.alone -= skim.window.startswith(skim.latest[0], skim.at)
        rows.pop()
        if not outside or last[1] > self.inside or (skim.at == 0 and self.asked >= least):
            return True
        self.least = least
        return False

    def go(self, offset: int, rows: int) -> bool:
        """Move on to ``offset``; return whether a batch is due before a window is loaded there."""
        skim = self.skim
        skim.at = offset - skim.base
        if self.contents:
            return skim.at > len(skim.window)
        if skim.at > len(skim.window):
            skim.window, skim.base, skim.at = b"", offset, 0
        return rows >= self.full

    def view(self, offset: int, size: int) -> bytes:
        """Return bytes from the window, otherwise from the source."""
        start = offset - self.skim.base
        if start >= 0 and start + size <= len(self.skim.window):
            return self.skim.window[start : start + size]
        return self.source.read_at(offset, size)

    def contents_at(self, offset: int, size: int) -> bytes:
        """Return contents; after a stream has passed them, only those in the window."""
        start = offset - self.skim.base
        if self.source.random or (start >= 0 and start + size <= len(self.skim.window)):
            return self.view(offset, size)
        return self.skim.window[max(0, start) : max(0, start + size)] if start >= 0 else b""

    def reaches(self, end: int) -> bool:
        """Return whether the tar has that many bytes."""
        return end <= self.skim.base + len(self.skim.window) or self.source.reaches(end)

    def end(self) -> int:
        """Return how many bytes the tar has, after ``reaches`` returned False."""
        return 1 << 62 if self.source.length is None else self.source.length

    def settle(self, members: int, position: int) -> None:
        """Learn from the number of members of a batch how large they are, and choose how to continue."""
        if members and position > self._since:
            local = (position - self._since) / members
            self.mean = (
                local
                if not self.mean
                else self.mean + (local - self.mean) * members / (members + 12)
            )
            self._choose()
        self._since = position
        if self.source.fd >= 0 and not self._hopping and position + 2 * _BATCH > self._advised:
            self._advised = max(position, self._advised)
            self.source.ahead(self._advised, 2 * _BATCH)
            self._advised += 2 * _BATCH

    def _choose(self) -> None:
        source, mean = self.source, self.mean
        far = mean >= (INSIDE // 2 if self.contents else _FAR)
        if not source.random:
            self.step = _STREAM
        elif source.fd < 0 and not source.near:
            # The source itself reads ahead where nothing is left out.
            self.step = _HOP_CONTENTS if far else _WINDOW if self.contents else _MANY
        elif self.contents:
            self.step = _HOP_CONTENTS if far else _WINDOW
        else:
            cluster = _ENDS if self.ends else _HOP if self.keep else _CLUSTER
            self.step = _HOP if far else cluster if mean >= _SMALL else _MANY
        if not self.contents:
            self.full = max(16, min(1024, int(_BATCH / mean))) if mean else 16
            self.refill = (
                self._read if self.keep or source.fd < 0 else partial(pread, source.fd, self.step)
            )
        if far != self._hopping and source.hop(far):
            self._hopping = far

    def _read(self, offset: int) -> bytes:
        fd = self.source.fd
        data = pread(fd, self.step, offset) if fd >= 0 else self.source.read_at(offset, self.step)
        if self.keep:
            self.pieces.append((offset, data))
        return data
