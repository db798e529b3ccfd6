"""The rule by which neighbouring members become samples, for all that look at members one by one.

A walk (``shards/tar/walk.py``) turns the bytes of a tar into members. Neighbours with the same key are one sample; the
key is a name up to the first dot of its last component. Programs differ in details, which a ``Grouping`` holds:

    for begins, key, field, row in grouped(Walk(source), WEBDATASET): ...

``Samples`` (``tar_samples.py``) follows the same rule with ranges of bytes, and judges what damage has done to a sample.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from wdsflow.shards.tar.member_names import key_of
from wdsflow.shards.tar.members import MemberBatch
from wdsflow.shards.tar.plain_entries import Row

Split = Callable[[str], tuple[str, str] | None]
GroupedMember = tuple[bool, str, str, Row]  # begins a sample, key, field, member


class Grouping(NamedTuple):
    """How a program groups members.

    Attributes:
        split: returns key and field of a name; None for a member that belongs to no sample.
        kinds: kinds of members that it reads.
        once: a field that comes again begins another sample; upper and lower case are the same, and damage parts a sample.
        beyond: members after the place where tarfile stops count as well.
    """

    split: Split = key_of
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
    fields: set[str] = set()
    for batch in batches:
        if batch.beyond and not beyond:
            return
        if batch.behind and once:
            latest = None
        for row in batch.rows:
            if row[4] not in kinds or (found := split(row[0])) is None:
                continue
            key, field = found
            begins = key != latest
            if once:
                lower = field.lower()
                begins = begins or lower in fields
                if begins:
                    fields = set()
                fields.add(lower)
            latest = key
            yield begins, key, field, row
