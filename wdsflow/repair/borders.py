"""Samples that are split at the border of two shards."""

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from wdsflow.shards.samples.grouping import Grouping, group_members
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.members import Member
from wdsflow.shards.tar.walk import Walk

from .dotted_names import split_base_name

# Limits of what moves from one shard to another.
_MOST_BYTES = 1 << 30
_MOST_MEMBERS = 64
_BY_STEM = Grouping(split_base_name, frozenset(("file", "sparse", "link", "directory", "special")))


class HalfRun(NamedTuple):
    """Neighbouring members with one stem."""

    stem: str
    members: list[Member]

    @property
    def fields(self) -> set[str]:
        """Field names, in lower case."""
        return {split_base_name(member.name)[1].lower() for member in self.members}

    @property
    def is_small(self) -> bool:
        """Whether it may move to another shard."""
        size = sum(member.size for member in self.members)
        return len(self.members) <= _MOST_MEMBERS and size <= _MOST_BYTES


@dataclass(frozen=True)
class Borders:
    """Members that a repair moves between neighbouring shards to join split samples.

    Attributes:
        skip: members at the start of the shard that belong to the last sample of the one before.
        tail: the next shard, and how many members at its start belong to this one.
    """

    skip: int = 0
    tail: tuple[Shard, int] | None = None


UNMOVED = Borders()


def moves_across_borders(urls: Sequence[Shard]) -> dict[int, Borders]:
    """Return the members to move across the borders of shards, by index in ``urls``.

    Shards without moves are omitted.

    A shard begins with the second part of a sample if its first sample has fewer fields than its
    second, or if it has no other, than the last but one of the shard before; and that ends with the
    same key and other fields. Only plain local files are checked; usually only the start of each is
    read.
    """
    skips: dict[int, int] = {}
    for index, (before, url) in enumerate(pairwise(urls), start=1):
        count = _second_part(before, url)
        if count:
            skips[index] = count
    moves: dict[int, Borders] = {}
    for index, count in skips.items():
        giver = moves.get(index, UNMOVED)
        moves[index] = replace(giver, skip=count)
        taker = moves.get(index - 1, UNMOVED)
        moves[index - 1] = replace(taker, tail=(urls[index], count))
    return moves


def first_members(source: Source, count: int) -> list[Member]:
    """Return the first members of a shard."""
    members: list[Member] = []
    for batch in Walk(source):
        members += batch.members
        if len(members) >= count:
            break
    return members[:count]


def _second_part(before: Shard, url: Shard) -> int:
    """Return how many first members of a shard belong to the previous shard's last sample."""
    try:
        with closing(_runs(url)) as runs:
            head = next(runs, None)
            following = next(runs, None)
        if head is None or not head.is_small:
            return 0
        if following is not None and not head.fields < following.fields:
            return 0
        last_two = list(deque(_runs(before), maxlen=2))
    except OSError:
        return 0
    if not last_two:
        return 0
    # A sample that is not split.
    neighbour = following
    if neighbour is None and len(last_two) > 1:
        neighbour = last_two[0]
    if neighbour is None or not head.fields < neighbour.fields:
        return 0
    last = last_two[-1]
    is_completed = last.stem == head.stem and not last.fields & head.fields
    return len(head.members) if is_completed else 0


def _runs(url: Shard) -> Generator[HalfRun, None, None]:
    """Yield the runs of a plain local file up to where readers stop.

    Yields nothing for other shards.
    """
    run: HalfRun | None = None
    with open_source(url) as source:
        if source.fd < 0 or source.compression:
            return
        for begins, stem, _, row in group_members(Walk(source), _BY_STEM):
            if run is None or begins:
                if run is not None:
                    yield run
                run = HalfRun(stem, [])
            run.members.append(Member(*row))
    if run is not None:
        yield run
