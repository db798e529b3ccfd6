"""Regroups the members of each sample, in the order in which samples first appear."""

import posixpath
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wdsflow.shards.tar.members import Member, split_name

from .clean_names import tidy_names

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
    """All samples of a shard, and the members that belong to none."""

    samples: list[RegroupedSample]
    dropped: Counter[str]
    fixed: Counter[str]


def plan(members: Sequence[Member], archives: Sequence[int], target_of: Callable[[Member], str | None]) -> RepairPlan:
    """Form samples from the members of one shard, whatever their order.

    ``archives`` numbers the archives in the file (see ``tidy_names``). ``target_of`` returns the member that a link
    names.
    """
    dropped: Counter[str] = Counter()
    named: list[str] = []
    numbers: list[int] = []
    contents: list[Member] = []
    links = 0
    for member, archive, content in zip(members, archives, _contents(members, target_of), strict=True):
        if isinstance(content, str):
            dropped[content] += 1
            continue
        links += member.kind == "link"
        named.append(member.name)
        numbers.append(archive)
        contents.append(content)
    tidy = tidy_names(named, numbers)
    samples: dict[str, RegroupedSample] = {}
    position = 0
    for content, name, reason in zip(contents, tidy.names, tidy.reasons, strict=True):
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
    """For each member the one that holds its contents, or the reason why there is none."""
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
