"""The rule by which neighbouring members become samples, for code that looks at members individually.

A walk (``shards/tar/walk.py``) turns the bytes of a tar into members. Neighbours with the same key
are one sample; the key is a name up to the first dot of its last component. Programs differ in
details, which a ``Grouping`` holds:

    for begins, key, field, row in grouped(Walk(source), WEBDATASET): ...

``Samples`` (``tar_samples.py``) follows the same rule with ranges of bytes, and judges the effect
of damage on a sample. Nearly all samples of a shard have the fields of the one before: ``Repeats``
finds many of them at a time.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from wdsflow.shards.tar.members import MemberBatch, key_of
from wdsflow.shards.tar.plain_entries import Row

# Begins a sample, key, field, member.
GroupedMember = tuple[bool, str, str, Row]

# No name begins with this.
_NO_NAME = "\0"

# Samples that are compared at a time.
_FEWEST = 2
_MOST = 256
# Attempts that are left out where samples differ again and again.
_LONGEST = 64
# In keys between line ends: the name of a member may then have another key, or be junk or metadata.
_ODD = re.compile(r"\.[^/\n]*\n|/\n|\n\n|\n__|__MACOSX/")


class Grouping(NamedTuple):
    """How a program groups members.

    Attributes:
        split: returns key and field of a name; None for a member that belongs to no sample.
        kinds: kinds of members that it reads.
        once: a field that comes again begins another sample; upper and lower case are the same, and damage ends a sample.
        beyond: members after the byte at which tarfile stops count as well.
    """

    split: Callable[[str], tuple[str, str] | None] = key_of
    kinds: frozenset[str] = frozenset(("file", "sparse"))
    once: bool = False
    beyond: bool = False


WEBDATASET = Grouping()
ALL_SAMPLES = Grouping(once=True, beyond=True)


def grouped(batches: Iterable[MemberBatch], rule: Grouping = WEBDATASET) -> Iterator[GroupedMember]:
    """Yield the members of samples, in the order of the tar.

    >>> rows = [(name, 0, 0, 0, "file") for name in ("a.jpg", "a.txt", "README", "b.jpg")]
    >>> [(begins, key, field) for begins, key, field, _ in grouped([MemberBatch(rows, b"", 0, False)])]
    [(True, 'a', 'jpg'), (False, 'a', 'txt'), (True, 'b', 'jpg')]
    """
    split, kinds, once, beyond = rule
    latest: str | None = None
    # Of the member before.
    key, prefix = "", _NO_NAME
    fields: set[str] = set()
    for batch in batches:
        if batch.beyond and not beyond:
            return
        if batch.behind and once:
            latest = None
        for row in batch.rows:
            if row[4] not in kinds:
                continue
            name = row[0]
            # Most members have the key of the one before: this takes a quarter of the time.
            if name.startswith(prefix) and "/" not in name[len(prefix) :]:
                field = name[len(prefix) :]
            else:
                key_and_field = split(name)
                if key_and_field is None:
                    continue
                key, field = key_and_field
                prefix = f"{key}." if split is key_of and not key.startswith("__") else _NO_NAME
            begins = key != latest
            if once:
                lower = field.lower()
                begins = begins or lower in fields
                if begins:
                    fields = set()
                fields.add(lower)
            latest = key
            yield begins, key, field, row


class Repeats:
    """Finds samples with the same members as an earlier one, many at a time, with the same result as individually."""

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
        names = [row[0] if row[4] == "file" else "" for row in rows[at : at + width * most]]
        keys = [name[: -len(endings[0])] for name in names[::width]]
        for position, ending in enumerate(endings):
            expected = [key + ending for key in keys]
            actual = names[position : width * len(keys) : width]
            if actual != expected:
                first_other = next(n for n, name in enumerate(actual) if name != expected[n])
                del keys[first_other:]
        if _ODD.search("\n".join(("", *keys, ""))):
            odd = (n for n, key in enumerate(keys) if _ODD.search(f"\n{key}\n"))
            del keys[next(odd, len(keys)) :]
        self._adapt(len(keys), most)
        return keys

    def _adapt(self, repeated: int, most: int) -> None:
        """Choose how many samples are compared next time, and whether to pause; ``repeated`` of ``most`` were alike."""
        if repeated == self._most:
            if self._most > _FEWEST:
                self._next_pause = 1
            self._most = min(4 * self._most, _MOST)
        elif repeated < most:
            self._most = _FEWEST
            self.pause = self._next_pause
            self._next_pause = min(2 * self._next_pause, _LONGEST)
