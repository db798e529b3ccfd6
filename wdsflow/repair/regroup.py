"""Forms samples from the members of one shard, in any order.

Samples that only share their key are kept apart.
"""

import posixpath
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wdsflow.shards.tar.members import Member, split_as_webdataset, split_name

from .clean_names import TidyNames, tidy_names, unused_key
from .first_sample import with_common_first
from .same_key import Segment, merge_segments

# Links to links.
_HOPS = 8


class SamplePart(NamedTuple):
    """One field of a sample, with the location of its contents."""

    field: str
    # For a link, the member that it points to.
    member: Member


@dataclass
class RegroupedSample:
    """A sample to be written, before its contents are changed."""

    key: str
    parts: list[SamplePart]


@dataclass
class RegroupedShard:
    """All samples of a shard, and the members without a sample, by reason."""

    samples: list[RegroupedSample]
    dropped: Counter[str] = field(default_factory=Counter)
    fixed: Counter[str] = field(default_factory=Counter)
    # A key that several samples have, and that of the second one now; "" if there is none.
    renamed_key: str = ""


class _SampleMember(NamedTuple):
    """A member that may belong to a sample."""

    # Members with the same number follow each other for readers, and have one key; None for those
    # that readers skip.
    run: int | None
    archive: int
    name: str
    contents: Member


class ContentReader(NamedTuple):
    """Functions that read the contents of members while samples are formed.

    Each may raise OSError.

    Attributes:
        target_of: returns the name of the member that a link points to, None if it leads out of the
            archive.
        digest: returns a hash of the contents of a member.
        decodes: returns whether readers decode a member as a field of that name.
    """

    target_of: Callable[[Member], str | None]
    digest: Callable[[Member], bytes]
    decodes: Callable[[str, Member], bool]


def regroup(
    members: Sequence[Member],
    archives: Sequence[int],
    contents: ContentReader,
    names: Sequence[str] | None = None,
) -> RegroupedShard:
    """Form samples from the members of one shard.

    Args:
        members: all of them, in order.
        archives: numbers the archives in the file (see ``tidy_names``).
        contents: reads the members.
        names: of the members, if they are not those in the tar.
    """
    names = [member.name for member in members] if names is None else names
    shard = RegroupedShard([])
    runs = reader_runs(members, archives)
    targets = _resolve_links(members, contents.target_of)
    kept: list[_SampleMember] = []
    links = 0
    for index, member in enumerate(members):
        target = targets[index]
        if isinstance(target, str):
            shard.dropped[target] += 1
            continue
        links += member.kind == "link"
        kept.append(_SampleMember(runs[index], archives[index], names[index], target))
    if links:
        shard.fixed["links replaced by their targets"] = links
    tidy = tidy_names([member.name for member in kept])
    segments = _segments(kept, tidy, shard)
    samples = _merged(segments, contents, shard)
    if _is_first_left_out(kept, tidy):
        first = samples[:1]
        samples = with_common_first(samples)
        if samples[:1] != first:
            shard.fixed["samples put first, as all others have their fields"] = 1
    _add_samples(samples, shard)
    return shard


def reader_runs(members: Sequence[Member], archives: Sequence[int]) -> list[int | None]:
    """Number the runs of adjacent members that have one key for readers.

    Members that readers skip have None.
    """
    runs: list[int | None] = []
    number = -1
    before: tuple[int, str] | None = None
    for member, archive in zip(members, archives, strict=True):
        parts = split_as_webdataset(member.name) if member.kind in ("file", "sparse") else None
        if parts is None:
            runs.append(None)
            continue
        if (archive, parts[0]) != before:
            number += 1
            before = archive, parts[0]
        runs.append(number)
    return runs


def _resolve_links(
    members: Sequence[Member], target_of: Callable[[Member], str | None]
) -> list[Member | str]:
    """Return, for each member, the one with its contents, or the reason why none exists."""
    if all(member.kind == "file" for member in members):
        return list(members)
    by_name: dict[str, Member] = {}
    # A file wins over a link of the same name.
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
            linked = by_name.get(posixpath.normpath(target)) if target else None
            if linked is None:
                break
            member = linked
        return "link"

    return [follow(member) for member in members]


def _is_first_left_out(kept: Sequence[_SampleMember], tidy: TidyNames) -> bool:
    """Return whether readers took members that are left out for the first sample of the shard."""
    names = [name for member, name in zip(kept, tidy.names, strict=True) if member.run == 0]
    return bool(names) and all(name is None for name in names)


def _segments(
    kept: Sequence[_SampleMember], tidy: TidyNames, shard: RegroupedShard
) -> list[Segment]:
    """Cut the members into segments, each of which a reader could take for one sample."""
    shard.fixed += tidy.fixed
    segments: list[Segment] = []
    runs: dict[tuple[str, int | None, int], int] = {}
    for member, name, reason in zip(kept, tidy.names, tidy.reasons, strict=True):
        if name is None:
            shard.dropped[reason] += 1
            continue
        key, part = split_name(name)
        if key is None or part is None:
            raise RuntimeError(f"{name!r} was to be tidy")
        # What readers skip follows no other member for them.
        run = runs.setdefault((key, member.run, member.archive), len(runs))
        current = segments[-1] if segments else None
        if current is None or current.run != run or part in current.parts:
            current = Segment(key, len(segments), run, hidden=member.archive > 0)
            segments.append(current)
        current.parts[part] = member.contents
    return segments


def _merged(
    segments: Sequence[Segment], contents: ContentReader, shard: RegroupedShard
) -> list[Segment]:
    """Join the segments of a sample."""
    merged = merge_segments(segments, contents.digest, contents.decodes)
    if merged.duplicates:
        shard.dropped["duplicate"] = merged.duplicates
    separated = sum(sample.separated for sample in merged.samples)
    if separated:
        shard.fixed["samples whose members were separated"] = separated
    return merged.samples


def _add_samples(samples: Sequence[Segment], shard: RegroupedShard) -> None:
    """Add samples to a shard, with new keys for those that only share their key."""
    # The first sample that readers get keeps the key.
    owners: dict[str, int] = {}
    for sample in sorted(samples, key=lambda sample: (not sample.is_read, not sample.trains)):
        owners.setdefault(sample.key, sample.position)
    used = set(owners)
    numbers: Counter[str] = Counter()
    for sample in samples:
        key = sample.key
        if owners[key] != sample.position:
            key = unused_key(key, used, numbers)
            shard.fixed["samples with the key of another one kept apart"] += 1
            shard.renamed_key = shard.renamed_key or f"{sample.key} is {key} now"
        parts = [SamplePart(name, member) for name, member in sample.parts.items()]
        shard.samples.append(RegroupedSample(key, parts))
