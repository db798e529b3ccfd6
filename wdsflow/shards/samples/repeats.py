"""Samples whose members have the same names as those of the sample before, except for the key.

Nearly all samples of a shard do: they are recognized many at a time, by comparing lists of names.
"""

import re
from collections.abc import Sequence

from wdsflow.shards.tar.plain_entries import Row

# Samples that are compared at a time.
_FEWEST = 2
_MOST = 256
# Attempts that are left out where samples differ again and again.
_LONGEST = 64
# In keys between line ends: the name of a member may then have another key, or be junk or metadata.
_ODD = re.compile(r"\.[^/\n]*\n|/\n|\n\n|\n__|__MACOSX/")


class RepeatFinder:
    """Finds samples with the same members as an earlier one, many at a time.

    The result is the same as for one sample at a time.
    """

    def __init__(self) -> None:
        # Samples for which ``keys`` is not worth its time; the caller counts it down.
        self.pause = 0
        self._most = _FEWEST
        self._next_pause = 1

    def keys(self, rows: Sequence[Row], at: int, endings: Sequence[str]) -> list[str]:
        """Return the keys of samples from ``at`` on; maybe none, even where there are some.

        Each has files whose names are its key and one of the endings (such as ".jpg"), all of them,
        in their order. Others may follow the last one.
        """
        width = len(endings)
        most = min(self._most, (len(rows) - at) // width)
        if not most:
            return []
        members = rows[at : at + width * most]
        # No name is empty: a folder or a link is not like any member.
        names = [row[0] if row[4] == "file" else "" for row in members]
        # Assume that each sample has all members, in the order of the endings.
        first_names = names[::width]
        keys = [name[: -len(endings[0])] for name in first_names]
        for position, ending in enumerate(endings):
            expected = [key + ending for key in keys]
            actual = names[position : width * len(keys) : width]
            if actual != expected:
                del keys[_first_difference(actual, expected) :]
        # One search over all keys: nearly always it finds nothing.
        if _ODD.search("\n".join(("", *keys, ""))):
            del keys[_first_to_check(keys) :]
        self._adapt(len(keys), most)
        return keys

    def _adapt(self, repeated: int, most: int) -> None:
        """Choose how many samples are compared next time, and whether to pause.

        ``repeated`` of ``most`` samples were alike.
        """
        if repeated == self._most:
            if self._most > _FEWEST:
                self._next_pause = 1
            self._most = min(4 * self._most, _MOST)
        elif repeated < most:
            self._most = _FEWEST
            self.pause = self._next_pause
            self._next_pause = min(2 * self._next_pause, _LONGEST)


def _first_difference(actual: Sequence[str], expected: Sequence[str]) -> int:
    """Return the index of the first name that is not as expected."""
    pairs = zip(actual, expected, strict=True)
    return next(index for index, (name, other) in enumerate(pairs) if name != other)


def _first_to_check(keys: Sequence[str]) -> int:
    """Return the index of the first key whose members have to be checked individually."""
    return next(index for index, key in enumerate(keys) if _ODD.search(f"\n{key}\n"))
