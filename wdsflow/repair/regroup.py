"""Brings the members of samples together, and separates merged samples."""

import posixpath
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from wdsflow.shards.samples.grouping import Grouping, grouped
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.members import Member, split_name
from wdsflow.shards.tar.walk import Walk

from .clean_names import cut, tidy_names

_HOPS = 8  # links to links


class SamplePart(NamedTuple):
    """One field of a sample, with the place of its contents."""

    field: str
    member: Member  # for a link the member that it points to


@dataclass
class RegroupedSample:
    """A sample to be written, before its contents are checked."""

    key: str
    parts: list[SamplePart] = field(default_factory=list)
    last: int = -1  # position of its last member among those kept
    apart: bool = False  # other members were between its members


@dataclass
class RepairPlan:
    """All samples of a shard, and the members without a sample, by reason."""

    samples: list[RegroupedSample]
    dropped: Counter[str]
    fixed: Counter[str]


def plan(members: Sequence[Member], archives: Sequence[int], target_of: Callable[[Member], str | None]) -> RepairPlan:
    """Form samples from the members of one shard, regardless of order.

    ``archives`` numbers the archives in the file (see ``tidy_names``). ``target_of`` returns the member that a link
    names.
    """
    dropped: Counter[str] = Counter()
    kept: list[tuple[str, int, Member]] = []
    links = 0
    for member, archive, content in zip(members, archives, _contents(members, target_of), strict=True):
        if isinstance(content, str):
            dropped[content] += 1
            continue
        links += member.kind == "link"
        kept.append((member.name, archive, content))
    tidy = tidy_names([name for name, _, _ in kept], [archive for _, archive, _ in kept])
    samples: dict[str, RegroupedSample] = {}
    position = 0
    for (_, _, content), name, reason in zip(kept, tidy.names, tidy.reasons, strict=True):
        if name is None:
            dropped[reason] += 1
            continue
        key, part = split_name(name)
        if key is None or part is None:
            raise RuntimeError(f"{name!r} was to be tidy")
        sample = samples.get(key)
        if sample is None:
            sample = samples[key] = RegroupedSample(key)
        elif sample.last != position - 1:
            sample.apart = True
        sample.parts.append(SamplePart(part, content))
        sample.last = position
        position += 1
    fixed = +tidy.fixed
    if apart := sum(sample.apart for sample in samples.values()):
        fixed["samples whose members were separated"] = apart
    if links:
        fixed["links replaced by their targets"] = links
    return RepairPlan(list(samples.values()), dropped, fixed)


def _contents(members: Sequence[Member], target_of: Callable[[Member], str | None]) -> list[Member | str]:
    """Return, for each member, the one with its contents, or the reason why none exists."""
    if all(member.kind == "file" for member in members):
        return list(members)
    by_name: dict[str, Member] = {}
    for kind in ("file", "link"):
        for member in members:
            if member.kind == kind:
                by_name.setdefault(posixpath.normpath(member.name), member)

    def follow(member: Member) -> Member | str:
        for _ in range(_HOPS):
            if member.kind == "file":
                return member
            if member.kind != "link":
                return member.kind
            target = target_of(member)
            found = by_name.get(posixpath.normpath(target)) if target else None
            if found is None:
                break
            member = found
        return "link"

    return [follow(member) for member in members]


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
