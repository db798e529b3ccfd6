"""The quick way through the plain entries of a tar; all others are left to ``tar_entry``.

Shards are written by one program from end to end, so that nearly all header bytes repeat from
member to member. Repeated bytes are checked in full at first and compared afterwards; changing ones
(name, size, time, checksum) are checked each time. So all bytes are verified, at a few comparisons
a member.
"""

import re
from collections.abc import Callable
from zlib import adler32

from .tar_header import BLOCK, BadHeader, decode_number, is_strict

# Name, size, data, header, kind.
Row = tuple[str, int, int, int, str]

# Bytes; larger members are counted.
HUGE = 2 << 30
# An extended header, its only block, and the member's header.
SPAN = 3 * BLOCK
# Checksums remembered.
_KEEP = 1 << 15
_MTIME = re.compile(rb"(\d+) mtime=")


class Sums(dict[bytes, int]):
    """Maps end of size, time and checksum fields to the low half of a header's Adler-32.

    ``adler32`` is taken of the first 156 bytes.

    The low half of Adler-32 is 1 plus the sum of the bytes, modulo 65521, and 156 bytes cannot
    reach that. A field that tarfile would not accept maps to -1.
    """

    def __init__(self, rest: int):
        super().__init__()
        # Sum of the bytes after the checksum.
        self.rest = rest

    def __missing__(self, key: bytes) -> int:
        if len(self) >= _KEEP:
            self.clear()
        checksum = key[13:]
        try:
            decode_number(key[1:13])
            expected = decode_number(checksum) - 256 - self.rest + sum(checksum) + 1
        except BadHeader:
            expected = -1
        self[key] = value = expected if key[0] in b"\0 " else -1
        return value


# Agrees with no header.
_NEVER = Sums(1 << 40)
_NOTHING: tuple[bytes, int, bytes, Sums, bytes] = (b"\xff", 0, b"\xff", _NEVER, b"")


class Skimmer:
    """Walks plain entries window by window.

    Remembers repeated parts of the headers of this shard.
    """

    def __init__(self) -> None:
        # Bytes, their offset, and the position within them.
        self.window, self.base, self.at = b"", 0, 0
        # Extended headers with only a time.
        self.alone = 0
        # Bytes that ``refill`` returned.
        self.fetched = 0
        # Bytes before an entry with which ``refill`` begins.
        self.lead = 0
        self.huge: list[Row] = []
        # Extended header -> the same and its keyword, its end.
        self.times: dict[bytes, tuple[bytes, int]] = {}
        # All after the checksum: type, link, magic, owner, prefix.
        self.tails: dict[bytes, Sums] = {}
        # Last byte of the name, mode, uid, gid.
        self.owners: set[bytes] = set()
        self.latest = _NOTHING

    def learn(self, header: bytes) -> None:
        """Remember a header that ``parse_header`` accepted.

        Ignores headers that have a prefix or are not of a plain file.
        """
        if header[156:157] != b"0" or header[345] or header[99]:
            return
        if len(self.tails) > 64 or len(self.owners) > 256:
            self.tails.clear()
            self.owners.clear()
        tail, owner = header[156:], header[99:124]
        self.owners.add(owner)
        sums = self.tails.get(tail)
        if sums is None:
            sums = self.tails[tail] = Sums(sum(tail))
        self.latest = *self.latest[:2], tail, sums, owner

    def learn_time(self, header: bytes, body: bytes) -> None:
        """Remember a valid extended header if its only record is mtime."""
        match, size = _MTIME.match(body), decode_number(header[124:136])
        if not match or not len(match[0]) < size < BLOCK or int(match[1]) != size:
            return
        if body[size - 1 :] == b"\n".ljust(BLOCK - size + 1, b"\0"):
            if len(self.times) > 64:
                self.times.clear()
            self.times[header] = header + match[0], BLOCK + size

    def forget(self) -> None:
        """Forget all headers: every entry takes the careful way."""
        self.times, self.tails, self.owners = {}, {}, set()
        self.latest = _NOTHING

    # One loop without calls of our own, on purpose: a call
    # a member, or even a window, would cost a tenth.
    def run(  # noqa: C901, PLR0912, PLR0915
        self, rows: list[Row], refill: Callable[[int], bytes] | None, full: int, length: int
    ) -> bool:
        """Append plain entries to ``rows``; return whether the next entry needs care.

        The walk begins at the current position.

        With ``refill`` (offset -> window) windows are fetched until there are ``full`` rows; a last
        row whose data end after ``length`` needs care. Without, the last row may reach out of the
        window, and ``at`` with it.
        """
        # The state is in local variables until the end: attributes are slower.
        window, base, at, lead = self.window, self.base, self.at, self.lead
        time, end, tail, sums, owner = self.latest
        times, tails, strict, append = self.times, self.tails, is_strict(), rows.append
        alone, header, careful = 0, 0, True
        while True:
            startswith, stop = window.startswith, len(window) - SPAN
            # A ``break`` leaves the entry at ``at`` to ``tar_entry``.
            while at <= stop:
                header = at
                # An extended header with only a time comes first.
                if end and startswith(time, at):
                    # Its record ends in a line break, with a zero after it.
                    if window[at + end] or (strict and window[at + end - 1] != 10):
                        break
                    header = at + 1024
                    alone += 1
                # What repeats after the checksum: type, link, magic, owner, prefix.
                if window[header + 156 : header + BLOCK] != tail:
                    if window[header + 156] in b"xL":
                        extended = times.get(window[at : at + BLOCK])
                        if header > at or not extended or not startswith(extended[0], at):
                            break
                        # The same entry again, with this extended header.
                        time, end = extended
                        continue
                    tail = window[header + 156 : header + BLOCK]
                    sums = tails.get(tail, _NEVER)
                head = window[header : header + 156]
                # The checksum agrees with all bytes of the header.
                if adler32(head) & 65535 != sums[head[135:]]:
                    break
                # What repeats before the size: last byte of the name, mode, uid, gid.
                if head[99:124] != owner:
                    owner = head[99:124] if head[99:124] in self.owners else b""
                    if not owner:
                        break
                try:
                    size = int(head[124:135], 8)
                    name = head.split(b"\0", 1)[0].decode()
                except ValueError:
                    break
                if size < 0:
                    break
                append((name, size, base + header + BLOCK, base + at, "file"))
                # The data fill whole blocks.
                at = header + BLOCK + (size + 511 & -512)
            else:
                # The window holds no further whole header.
                if not refill:
                    careful = at <= 0
                elif base + at > length and at > len(window):
                    # The data of the last row end after the source.
                    at = header = rows[-1][3] - base
                    alone -= startswith(time, at)
                    rows.pop()
                else:
                    if at > HUGE and rows[-1][1] > HUGE:
                        self.huge.append(rows[-1])
                    # The next window begins some bytes before the next entry.
                    position, base = base + at, max(0, base + at - lead)
                    at = header = position - base
                    careful = len(rows) < full
                    window = refill(base) if careful else b""
                    self.fetched += len(window)
                    if len(window) >= SPAN + at:
                        continue
            break
        self.window, self.base, self.at = window, base, at
        # An extended header before an entry that needs care is not counted here.
        self.alone += alone - (header - at == 1024)
        self.latest = time, end, tail, sums, owner
        return careful
