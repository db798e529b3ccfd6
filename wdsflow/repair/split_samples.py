"""Finds samples that were split between the end of one shard and the start of the next."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wdsflow.repair.dots import cut
from wdsflow.shards.source.base import Source
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.members import Member
from wdsflow.shards.tar.walk import Walk

_LARGEST = 1 << 30  # bytes of the second part
_MEMBERS = 64


class HalfRun(NamedTuple):
    """Neighbouring members with one stem."""

    stem: str
    members: list[Member]

    @property
    def fields(self) -> set[str]:
        """Field names, in lower case."""
        return {cut(member.name)[1].lower() for member in self.members}


def second_halves(urls: Sequence[str]) -> dict[int, int]:
    """Return, for each shard that begins with the second part of a sample, how many members that part has.

    A shard begins with such a part if its first sample has fewer fields than its second, and the shard before it ends
    with the same key and other fields. Only plain local files are checked; usually only the start of each is read.
    """
    found: dict[int, int] = {}
    for index in range(1, len(urls)):
        head = _suspicious_head(urls[index])
        if head is None:
            continue
        tail = _tail(urls[index - 1])
        if tail is not None and tail.stem == head.stem and not tail.fields & head.fields:
            found[index] = len(head.members)
    return found


def first_members(source: Source, count: int) -> list[Member]:
    """Return the first members of a shard."""
    members: list[Member] = []
    for batch in Walk(source):
        members += batch.members
        if len(members) >= count:
            break
    return members[:count]


def _suspicious_head(url: str) -> HalfRun | None:
    try:
        with open_source(url) as source:
            if source.fd < 0 or source.compression:
                return None
            runs = _runs(source)
            head, following = next(runs, None), next(runs, None)
    except OSError:
        return None
    if head is None or following is None or len(head.members) > _MEMBERS or not head.fields < following.fields:
        return None
    return head if sum(member.size for member in head.members) <= _LARGEST else None


def _tail(url: str) -> HalfRun | None:
    tail = None
    try:
        with open_source(url) as source:
            if source.fd < 0 or source.compression:
                return None
            for run in _runs(source):
                tail = run
    except OSError:
        return None
    return tail


def _runs(source: Source) -> Iterator[HalfRun]:
    """Runs up to the place where readers stop."""
    run: HalfRun | None = None
    for batch in Walk(source):
        if batch.beyond:
            break
        for member in batch.members:
            stem = cut(member.name)[0]
            if run is not None and run.stem == stem:
                run.members.append(member)
                continue
            if run is not None:
                yield run
            run = HalfRun(stem, [member])
    if run is not None:
        yield run
