"""Samples that are split at the border of two shards."""

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from wdsflow.shards.samples.grouping import Grouping, grouped
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.members import Member
from wdsflow.shards.tar.walk import Walk

from .dotted_names import cut

_LARGEST = 1 << 30  # bytes of the second part
_MEMBERS = 64
_BY_STEM = Grouping(cut, frozenset(("file", "sparse", "link", "directory", "special")))


class HalfRun(NamedTuple):
    """Neighbouring members with one stem."""

    stem: str
    members: list[Member]

    @property
    def fields(self) -> set[str]:
        """Field names, in lower case."""
        return {cut(member.name)[1].lower() for member in self.members}


@dataclass(frozen=True)
class Borders:
    """Members that a repair moves between neighbouring shards to join split samples."""

    skip: int = 0  # members at its start that belong to the last sample of the previous shard
    tail: tuple[Shard, int] | None = None  # the next shard, and how many members at its start belong to this one


UNMOVED = Borders()


def borders(urls: Sequence[Shard]) -> dict[int, Borders]:
    """Return the moves at the borders of shards, by index in ``urls``; shards without moves are omitted.

    A shard begins with the second part of a sample if its first sample has fewer fields than its second, or if it has no
    other, than the last but one of the shard before; and that ends with the same key and other fields. Only plain local files are checked; usually only the start of each
    is read.
    """
    halves = {index + 1: half for index, pair in enumerate(pairwise(urls)) if (half := _second_half(*pair))}
    return {
        index: Borders(halves.get(index, 0), (urls[index + 1], halves[index + 1]) if index + 1 in halves else None)
        for index in {*halves, *(index - 1 for index in halves)}
    }


def first_members(source: Source, count: int) -> list[Member]:
    """Return the first members of a shard."""
    members: list[Member] = []
    for batch in Walk(source):
        members += batch.members
        if len(members) >= count:
            break
    return members[:count]


def _second_half(before: Shard, url: Shard) -> int:
    """Return how many members at the start of a shard belong to the last sample of the previous one."""
    try:
        with closing(_runs(url)) as runs:
            head, following = next(runs, None), next(runs, None)
        if head is None or len(head.members) > _MEMBERS or sum(member.size for member in head.members) > _LARGEST:
            return 0
        if following is not None and not head.fields < following.fields:
            return 0
        last = list(deque(_runs(before), maxlen=2))
    except OSError:
        return 0
    whole = following or (last[0] if len(last) > 1 else None)
    if whole is None or not last or not head.fields < whole.fields:
        return 0
    return len(head.members) if last[-1].stem == head.stem and not last[-1].fields & head.fields else 0


def _runs(url: Shard) -> Generator[HalfRun, None, None]:
    """Yield the runs of a plain local file up to the place where readers stop; none for other shards."""
    run: HalfRun | None = None
    with open_source(url) as source:
        for begins, stem, _, row in (
            grouped(Walk(source), _BY_STEM) if source.fd >= 0 and not source.compression else ()
        ):
            if run is None or begins:
                if run is not None:
                    yield run
                run = HalfRun(stem, [])
            run.members.append(Member(*row))
    if run is not None:
        yield run
