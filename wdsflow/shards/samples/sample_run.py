"""Neighbouring samples with the same fields, as arrays: of small samples, an object for each takes too long."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsflow.shards.tar.entry_arrays import EntryArrays, Flags, Numbers, longest
from wdsflow.shards.tar.member_names import may_be_junk

from .tar_sample import TarSample

_LEAST = 8  # samples of a run; fewer are as quick one by one
_DOT, _SLASH, _UNDERSCORE = b"./_"
_WORD = 8


class SampleRun(NamedTuple):
    """Samples with the same fields in the same order, each directly after the one before.

    Attributes:
        number: of the first one, as ``TarSample.number``.
        keys: ASCII.
        names: the fields, in lower case.
        endings: what follows the key in the names of their members.
        start, end: (samples,) the range of each in the tar.
        size, data, header: (samples, fields), of their members, as in a ``Row``.
    """

    number: int
    keys: list[bytes]
    names: tuple[str, ...]
    endings: tuple[str, ...]
    start: Numbers
    end: Numbers
    size: Numbers
    data: Numbers
    header: Numbers

    def samples(self) -> Iterator[TarSample]:
        """Yield them one by one."""
        places = zip(self.keys, self.start.tolist(), self.end.tolist(), strict=True)
        members = zip(self.size.tolist(), self.data.tolist(), self.header.tolist(), strict=True)
        for number, ((key, start, end), each) in enumerate(zip(places, members, strict=True), self.number):
            sample = TarSample(number, key.decode("ascii"), start)
            sample.end, sample.names = end, self.names
            rows = zip([sample.key + ending for ending in self.endings], *each, strict=True)
            sample.fields = {name: (*row, "file") for name, row in zip(self.names, rows, strict=True)}
            yield sample


def parts_of(found: EntryArrays) -> Iterator[tuple[int, int, SampleRun | None]]:
    """Yield all members in order: from which one, up to which one, and the run that they are; None if they are none.

    The first and the last sample are in no run: they may continue outside. Runs are numbered from 0.
    """
    members = len(found.size)
    names = np.ascontiguousarray(found.names[:, : -(-longest(found.names) // _WORD) * _WORD])
    dots, odd = _dots(names)
    keys = np.where(np.arange(names.shape[1]) < dots[:, None], names, np.uint8(0))
    words, endings = keys.view(np.uint64), _endings(names, dots)
    starts = np.flatnonzero(np.concatenate([[True], (words[1:] != words[:-1]).any(1)]))
    counts = np.diff(starts, append=members)
    before = np.arange(members) - np.repeat(counts, counts)  # the member at the same place of the sample before
    same = np.logical_and.reduceat((endings == endings[before]).all(1), starts) & (counts == np.roll(counts, 1))
    usable = ~np.logical_or.reduceat(odd, starts)
    usable[1:-1] &= usable[:-2] & usable[2:]  # what is next to a member without a key may continue after it
    usable[[0, -1]] = False
    first = usable & ~(same & np.roll(usable, 1))
    stops = np.flatnonzero(first | ~usable)
    at = 0
    for start in np.flatnonzero(first).tolist():
        stop = int(stops[np.searchsorted(stops, start, "right")])
        if stop - start < _LEAST:
            continue
        begin, end, fields = int(starts[start]), int(starts[stop]), int(counts[start])
        texts = tuple(endings[begin + place].tobytes().rstrip(b"\0").decode("ascii") for place in range(fields))
        lower = tuple(text[1:].lower() for text in texts)
        if len(set(lower)) < fields:
            continue
        key = keys[begin:end:fields].view(f"S{keys.shape[1]}").ravel().tolist()
        if may_be_junk(key):
            continue
        if begin > at:
            yield at, begin, None
        at = end
        size, data, header = (each[begin:end].reshape(-1, fields) for each in (found.size, found.data, found.header))
        ends = found.end[begin:end][fields - 1 :: fields]
        yield begin, end, SampleRun(0, key, lower, texts, header[:, 0], ends, size, data, header)
    if at < members:
        yield at, members, None


def _dots(names: NDArray[np.uint8]) -> tuple[Numbers, Flags]:
    """Return where the dot is that ends each key, and which names may have none, as ``split_name`` and ``is_meta`` tell."""
    width = names.shape[1]
    is_dot, slashes = names == _DOT, names == _SLASH
    base = np.where(slashes.any(1), width - slashes[:, ::-1].argmax(1), 0)  # where the last component begins
    is_dot &= np.arange(width) >= base[:, None]
    dots = is_dot.argmax(1)
    meta = (names[:, :2] == _UNDERSCORE).all(1)
    return dots, ~is_dot.any(1) | (dots == base) | meta


def _endings(names: NDArray[np.uint8], dots: Numbers) -> NDArray[np.uint64]:
    """Return what follows the key in each name, the dot included, as words."""
    members, width = names.shape
    most = -(-int(((names != 0).sum(1) - dots).max(initial=1)) // _WORD) * _WORD
    filled = np.zeros((members, width + most), np.uint8)
    filled[:, :width] = names
    return np.take_along_axis(filled, dots[:, None] + np.arange(most), 1).view(np.uint64)
