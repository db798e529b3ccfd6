"""What the first pass found in one input, and samples whose members are not next to each other."""

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wdsflow.records.line import Counts
from wdsflow.shards.samples.tar_samples import Samples, is_harmless
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.text.shell import escape


class Apart(NamedTuple):
    """Samples whose members are not next to each other: how many, and the place of one among the samples of its tar."""

    samples: int
    place: int


@dataclass
class InputReport:
    """One input: its samples, and what is left out."""

    number: int
    url: str
    rows: int = 0  # samples that can be written
    samples: int = 0
    members: int = 0
    left_out: Counter[str] = field(default_factory=Counter)  # reason -> members that belong to no sample
    dropped: Counter[str] = field(default_factory=Counter)  # reason -> samples
    damage: list[str] = field(default_factory=list)
    identity: dict[str, object] = field(default_factory=dict)
    copy: Path | None = None  # what to read instead: unpacked, or with plain headers
    is_local: bool = False  # a plain file of this machine
    apart: Apart = field(default_factory=lambda: Apart(0, 0))
    first: tuple[str, tuple[str, ...]] = ("", ())  # key and fields of its first sample
    last: tuple[str, tuple[str, ...]] = ("", ())

    @property
    def unread(self) -> bool:
        """Whether nothing of it could be read."""
        return bool(self.lost) and not self.members

    @property
    def lost(self) -> list[str]:
        """The damage that loses something."""
        return [damage for damage in self.damage if not is_harmless(damage)]

    @property
    def unusable(self) -> int:
        """Samples that cannot be copied."""
        return self.dropped.total()

    def check(self) -> None:
        """Raise RuntimeError if a sample is unaccounted for."""
        Counts("samples", self.samples, self.rows, self.dropped).check(str(self))


Opened = Callable[[InputReport], Source]
"""Opens an input again."""


class MembersApart(ValueError):
    """Samples whose members are not next to each other."""


def refuse_apart(inputs: Sequence[InputReport], opened: Opened) -> None:
    """Raise MembersApart if members of one sample are not next to each other."""
    total = sum(found.apart.samples for found in inputs)
    where = next((found for found in inputs if found.apart.samples), None)
    key = _key_at(where, where.apart.place, opened) if where is not None else ""
    for one, other in pairwise(found for found in inputs if found.last[1]):  # those with samples
        if one.last[0] == other.first[0] and set(one.last[1]).isdisjoint(other.first[1]):
            total += 1
            where, key = (one, one.last[0]) if where is None else (where, key)
    if where is not None:
        which = "1 sample has" if total == 1 else f"{total:,} samples have"
        raise MembersApart(
            f"{which} members that are not next to each other, such as {escape(key)} in {where.url}:"
            " resharding would part them"
        )


def _key_at(found: InputReport, place: int, opened: Opened) -> str:
    with suppress(SourceError), opened(found) as source:
        keys = (sample.key for sample in Samples(source, contents=False))
        return next(islice(keys, place, None), "")
    return ""


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
