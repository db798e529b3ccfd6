"""The rule that groups neighbouring members into samples, for code that handles members one by one.

A walk (``shards/tar/walk.py``) turns the bytes of a tar into members. Neighbours with the same key
are one sample; the key is a name up to the first dot of its last component. Programs differ in
details, which a ``Grouping`` holds:

    for begins, key, field, row in grouped(Walk(source), WEBDATASET): ...

``Samples`` (``tar_samples.py``) follows the same rule with ranges of bytes, and judges the effect
of damage on a sample.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from wdsflow.shards.tar.members import MemberBatch, split_as_webdataset
from wdsflow.shards.tar.plain_entries import Row

# Begins a sample, key, field, member.
GroupedMember = tuple[bool, str, str, Row]

# No name begins with this.
_NO_NAME = "\0"


class Grouping(NamedTuple):
    """How a program groups members.

    Attributes:
        split: returns key and field of a name; None for a member that belongs to no sample.
        member_kinds: kinds of members that it reads.
        repeat_begins_sample: a field that comes again begins another sample; upper and lower case
            are the same, and damage ends a sample.
        reads_past_stop: members after the byte at which tarfile stops count as well.
    """

    split: Callable[[str], tuple[str, str] | None] = split_as_webdataset
    member_kinds: frozenset[str] = frozenset(("file", "sparse"))
    repeat_begins_sample: bool = False
    reads_past_stop: bool = False


WEBDATASET = Grouping()
ALL_SAMPLES = Grouping(repeat_begins_sample=True, reads_past_stop=True)


def group_members(
    batches: Iterable[MemberBatch], rule: Grouping = WEBDATASET
) -> Iterator[GroupedMember]:
    """Yield the members of samples, in the order of the tar.

    >>> rows = [(name, 0, 0, 0, "file") for name in ("a.jpg", "a.txt", "README", "b.jpg")]
    >>> [(begins, key, field) for begins, key, field, _ in group_members([MemberBatch(rows, b"", 0, False)])]
    [(True, 'a', 'jpg'), (False, 'a', 'txt'), (True, 'b', 'jpg')]
    """
    split, kinds, once, beyond = rule
    latest: str | None = None
    # Of the member before.
    key, prefix = "", _NO_NAME
    fields: set[str] = set()
    for batch in batches:
        if batch.is_past_stop and not beyond:
            return
        if batch.gap_before and once:
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
                prefix = (
                    f"{key}."
                    if split is split_as_webdataset and not key.startswith("__")
                    else _NO_NAME
                )
            begins = key != latest
            if once:
                lower = field.lower()
                begins = begins or lower in fields
                if begins:
                    fields = set()
                fields.add(lower)
            latest = key
            yield begins, key, field, row
