"""Finds samples of one tar whose members are not next to each other."""

from array import array

import numpy as np

from .input_report import Apart


class SampleShapes:
    """The fields of each sample of a tar, with a hash of its key.

    Attributes:
        first, last: key and fields of the first and of the last sample.
    """

    def __init__(self) -> None:
        self.first: tuple[str, tuple[str, ...]] = ("", ())
        self.last: tuple[str, tuple[str, ...]] = ("", ())
        self._numbers: dict[tuple[str, ...] | None, int] = {}
        self._digests, self._shapes = array("Q"), array("L")

    def add(self, digest: int, fields: tuple[str, ...] | None, key: str) -> None:
        """Take the next sample; ``fields`` is None for what is left of a damaged one."""
        if fields is not None:
            self.first = self.first if self.first[1] else (key, fields)
            self.last = key, fields
        self._digests.append(digest)
        self._shapes.append(self._numbers.setdefault(fields, len(self._numbers)))

    def apart(self) -> Apart:
        """Return the samples whose key comes again with other fields, none of them the same."""
        if len(self._numbers) < 2:
            return Apart(0, 0)
        digests = np.frombuffer(self._digests, np.uint64)
        order = np.argsort(digests, kind="stable")
        same = np.flatnonzero(digests[order][1:] == digests[order][:-1])
        shapes, seen, place = list(self._numbers), set[int](), len(digests)
        for at in same.tolist():
            one, other = (shapes[self._shapes[each]] for each in order[at : at + 2].tolist())
            if one is not None and other is not None and set(one).isdisjoint(other):
                seen.add(self._digests[int(order[at])])
                place = min(place, int(order[at]))
        return Apart(len(seen), place)
