"""The quickest way through plain tars of this machine: many headers at a time, checked as arrays.

``plain_entries`` checks one header after the other; with small samples, Python then takes about as long as the disk.
Here NumPy finds and checks hundreds of headers at once. It accepts fewer than ``plain_entries``: headers that repeat
those checked in full before, with ASCII names and octal numbers of full length, each where the member before ends.
Anything else ends the arrays, and is read entry by entry.
"""

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from .pax_records import is_strict
from .plain_entries import HUGE, SPAN, Row, Skimmer
from .tar_header import BLOCK

if TYPE_CHECKING:
    from wdsflow.shards.source.base import Source

Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]

_FIRST, _MOST = 256 << 10, 8 << 20  # bytes that are read and checked at a time: to begin with, and at most
CAN_READ = hasattr(os, "preadv")  # not on Windows
_WORDS, _NAME = BLOCK // 8, 104 // 8  # words of a block, and of a name
_OWNER, _SIZE, _SUM, _TYPE = 99, 124, 148, 156  # where fields begin; the owner's with the last byte of the name
_MAGIC = 256 // 8  # the word with most of the magic
_LENGTH = (*range(_SIZE // 8, _TYPE // 8 + 1), _WORDS)  # words that depend on the length of an extended header
_ALIKE = np.array([word not in _LENGTH for word in range(_WORDS)], np.uint64)  # 1 for words that do not
_KEYWORD = 9  # bytes of "27 mtime=", of which a word has 8; longer times there are none
_EXTENDED, _NEWLINE = b"x\n"
_POWERS = 8 ** np.arange(10, -1, -1, dtype=np.int64)
_EVEN, _ODD = np.uint64(0x00FF00FF00FF00FF), np.uint64(8)  # every other byte of a word; the shift to the others
_DIGITS = b"0" * 11 + b"\0" + b"0" * 11 + b"\0" + b"0" * 6 + b"\0\0"  # size, time and checksum
_ZEROS = np.frombuffer(_DIGITS, np.uint32)
# Bits that must be those of "0": a digit may have others in its last three, a zero at the end may be a blank.
_FIXED = np.frombuffer(_DIGITS.replace(b"0", b"\xf8").replace(b"\0", b"\xdf"), np.uint32)


class EntryArrays(NamedTuple):
    """Plain members, each directly after the one before.

    Attributes:
        names: (members, 104) bytes of ASCII without line breaks; zeros after the end of each name.
        size, data, header: (members,), as those of a ``Row``.
    """

    names: NDArray[np.uint8]
    size: Numbers
    data: Numbers
    header: Numbers

    @property
    def end(self) -> Numbers:
        """The offset after the padding of each member."""
        return self.data + _padded(self.size)

    def rows(self, start: int, stop: int) -> list[Row]:
        """Return members from ``start`` up to ``stop``."""
        part = slice(start, stop)
        names = self.names[part].view(f"S{8 * _NAME}").ravel().tolist()
        numbers = (each[part].tolist() for each in (self.size, self.data, self.header))
        return [(name.decode("ascii"), *each, "file") for name, *each in zip(names, *numbers, strict=True)]


class ArrayReader:
    """Reads plain entries of a local tar into arrays, by what a ``Skimmer`` has learned of its headers."""

    def __init__(self, source: "Source", skim: Skimmer) -> None:
        self._source, self._skim = source, skim
        self._buffer = bytearray()
        self._step = _FIRST

    def read(self, offset: int) -> EntryArrays | None:
        """Return some plain entries from ``offset`` on, where one begins; None if that is not known to be plain. Raises OSError."""
        _, _, tail, sums, owner = self._skim.latest
        if not owner:  # no header is known yet
            return None
        if len(self._buffer) < self._step:
            self._buffer = bytearray(self._step)
        count = os.preadv(self._source.fd, [memoryview(self._buffer)[: self._step]], offset)
        self._source.bytes_read += count
        step, self._step = self._step, _FIRST
        words = np.frombuffer(self._buffer, np.uint64, count // BLOCK * _WORDS).reshape(-1, _WORDS)
        (block,) = np.nonzero(words[:, _MAGIC] == np.frombuffer(tail, np.uint64, 1, 8 * _MAGIC - _TYPE))
        extended = words.view(np.uint8)[block, _TYPE] == _EXTENDED
        timed = bool(len(block)) and extended[0]
        if timed:  # an extended header, its contents and a header, or the arrays end
            block = block[extended]
            block = block[: np.searchsorted(block, len(words) - 2)]
        if not len(block):
            return None
        span = SPAN if timed else BLOCK
        rows = as_strided(words, (len(words), span // 8), words.strides)[block]
        heads = rows[:, -_WORDS:]
        good, size = _are_known(heads, tail, sums.rest, owner)
        if timed:
            good &= self._tell_times(rows)
        header = offset + block * BLOCK
        end = header + span + _padded(size)
        good &= (end <= (self._source.length or 0)) & (size <= HUGE)
        good &= header == np.concatenate([[offset], end[:-1]])
        members = len(good) if good.all() else int(good.argmin())
        if not members:
            return None
        if members == len(good):
            self._step = min(4 * step, _MOST)
        names = heads[:members, :_NAME].copy().view(np.uint8)
        names[:, _OWNER:] = 0
        return EntryArrays(names, size[:members], header[:members] + span, header[:members])

    def _tell_times(self, rows: Words) -> Flags:
        """Return which rows of three blocks begin with an extended header that is known to tell a time and nothing else."""
        octets, good = rows.view(np.uint8), np.zeros(len(rows), np.bool_)
        changing = rows[:, _LENGTH]
        first: Words | None = None
        for header, (text, end) in self._skim.times.items():
            known = np.frombuffer(header + text[BLOCK:].ljust(BLOCK), np.uint64)
            if first is None:
                first = known[:_WORDS] * _ALIKE
                alike = (rows[:, :_WORDS] * _ALIKE == first).all(1)
            if len(text) == BLOCK + _KEYWORD and (known[:_WORDS] * _ALIKE == first).all():
                same: Flags = (changing == known[list(_LENGTH)]).all(1) & (octets[:, len(text) - 1] == text[-1])
                same &= octets[:, end] == 0
                if is_strict():
                    same &= octets[:, end - 1] == _NEWLINE
                good |= same
                if good.all():
                    break
        return good & alike if first is not None else good


def longest(names: NDArray[np.uint8]) -> int:
    """Return how many bytes the longest of some names has that are filled up with zeros; at least 1."""
    (used,) = np.nonzero(np.bitwise_or.reduce(names, axis=0))
    return int(used.max(initial=0)) + 1


def _padded(size: Numbers) -> Numbers:
    return size + (BLOCK - 1) & -BLOCK


def _are_known(heads: Words, tail: bytes, rest: int, owner: bytes) -> tuple[Flags, Numbers]:
    """Return which headers repeat a known one, with a plain name, numbers and checksum of their own; and the sizes.

    Args:
        heads: (headers, 64).
        tail: of the known one, all after the checksum.
        rest: the sum of the bytes of ``tail``.
        owner: of the known one, the last byte of the name, mode, user and group.
    """
    good: Flags = (heads[:, _TYPE // 8 + 1 :] == np.frombuffer(tail, np.uint64, offset=4)).all(1)
    heads = heads[:, : _TYPE // 8 + 1].copy()
    halves, octets = heads.view(np.uint32), heads.view(np.uint8)
    good &= halves[:, _TYPE // 4] == np.frombuffer(tail, np.uint32, 1)
    good &= (halves[:, (_OWNER + 1) // 4 : _SIZE // 4] == np.frombuffer(owner, np.uint32, offset=1)).all(1)
    good &= octets[:, _OWNER] == owner[0]
    numbers = halves[:, _SIZE // 4 : _TYPE // 4] ^ _ZEROS
    good &= (numbers & _FIXED == 0).all(1)
    digits = numbers.view(np.uint8)  # if they are all in order
    words = heads[:, : _SUM // 8 + 1]  # all before the checksum, and its first four bytes
    lanes = ((words & _EVEN) + (words >> _ODD & _EVEN)).sum(1, dtype=np.uint64)  # four sums, each below 19 * 511
    total = lanes.view(np.uint16).reshape(-1, 4).sum(1, dtype=np.int64)
    total -= octets[:, _SUM : _SUM + 4].sum(1, dtype=np.int64)
    declared = digits[:, _SUM - _SIZE :][:, :6] @ _POWERS[-6:]
    good &= total + 8 * ord(" ") + rest == declared  # the checksum itself counts as blanks
    names = np.ascontiguousarray(octets[:, : longest(octets[:, :_OWNER])])
    if int(names.max(initial=0)) > 126 or (names == _NEWLINE).any():
        good &= ((names < 127) & (names != _NEWLINE)).all(1)
    filled = names != 0
    good &= filled[:, 0] & (filled[:, 1:] <= filled[:, :-1]).all(1)  # nothing after the first zero
    return good, digits[:, :11] @ _POWERS
