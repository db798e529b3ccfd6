"""Members with one key that are not adjacent.

They are parts of one sample, or samples that only share their key.

A reader such as OpenCLIP's ``group_by_keys_nothrow`` begins a sample where the key changes or a
field is repeated. What it gets in this way is a ``Segment``. A segment with an image and another
field trains as it is, so it stays a sample of its own. All other segments are parts: they complete
a sample that lacks their fields.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.tar.members import Member

Digest = Callable[[Member], bytes]
Decodes = Callable[[str, Member], bool]

_IMAGES = frozenset(IMAGE_FIELDS)


@dataclass
class Segment:
    """Neighbouring members of one key with distinct fields.

    Attributes:
        key: the key, as it will be written.
        position: its number among all segments of the shard.
        run: segments with the same number follow each other in the tar, cut only by repeated
            fields.
        parts: the members by field, in their order.
        hidden: it is after the end mark of an archive, where readers stop.
        separated: it was joined from segments that do not follow each other.
    """

    key: str
    position: int
    run: int = -1
    parts: dict[str, Member] = field(default_factory=dict)
    hidden: bool = False
    separated: bool = False

    @property
    def trains(self) -> bool:
        """Whether readers may train on it as it is."""
        return not _IMAGES.isdisjoint(self.parts) and not _IMAGES.issuperset(self.parts)

    @property
    def is_read(self) -> bool:
        """Whether readers may train on it now."""
        return self.trains and not self.hidden


@dataclass
class MergedSegments:
    """Samples of one shard, in the order in which they begin.

    Attributes:
        samples: one segment each, which has the members of all that were joined.
        duplicates: members that were left out, because another sample of the key has the same ones.
    """

    samples: list[Segment]
    duplicates: int = 0


def merge_segments(segments: Iterable[Segment], digest: Digest, decodes: Decodes) -> MergedSegments:
    """Return the samples that segments form.

    Args:
        segments: of one shard, in order.
        digest: returns a hash of the contents of a member. May raise OSError.
        decodes: returns whether readers decode a member as that field. May raise OSError.
    """
    by_key: dict[str, list[Segment]] = {}
    for segment in segments:
        by_key.setdefault(segment.key, []).append(segment)
    usual = _usual_fields(by_key.values())
    merged = MergedSegments([])
    for group in by_key.values():
        if len(group) == 1:
            merged.samples += group
        else:
            samples = _merge_group(group, usual, decodes)
            merged.samples += _without_repeated(samples, digest, merged)
    merged.samples.sort(key=lambda sample: sample.position)
    return merged


def _usual_fields(groups: Iterable[Sequence[Segment]]) -> frozenset[str]:
    """Return the fields of most samples that train, as if they had their parts.

    Empty if no set of fields has a majority.
    """
    shapes: Counter[frozenset[str]] = Counter()
    for group in groups:
        samples = [segment for segment in group if segment.trains]
        fields = [set(sample.parts) for sample in samples]
        if len(samples) < len(group):
            _first_fit([segment for segment in group if not segment.trains], fields)
        shapes.update(map(frozenset, fields))
    if not shapes:
        return frozenset()
    shape, count = shapes.most_common(1)[0]
    return shape if 2 * count > shapes.total() else frozenset()


def _merge_group(
    group: Sequence[Segment], usual: frozenset[str], decodes: Decodes
) -> list[Segment]:
    """Return the samples that the segments of one key form.

    A sample that trains gets further fields only if most samples of the shard have them: readers
    that take the fields of the first samples for those of all would end at others. And only if they
    decode: a reader that decodes all fields would drop the sample.
    """
    complete = [segment for segment in group if segment.trains]
    parts = [segment for segment in group if not segment.trains]
    parts = _without_fields_given_away(parts, complete, decodes)
    rest: list[Segment] = []
    additions: list[list[Segment]] = [[] for _ in complete]
    fields = [set(sample.parts) for sample in complete]
    for part, index in zip(parts, _first_fit(parts, fields), strict=True):
        if index is None:
            rest.append(part)
        else:
            additions[index].append(part)
    for index, added in enumerate(additions):
        if not added:
            continue
        if fields[index] == usual and all(_decodes_all(part, decodes) for part in added):
            complete[index] = _joined([complete[index], *added])
        else:
            rest += added
    rest.sort(key=lambda part: part.position)
    return [*complete, *_joined_parts(rest)]


def _without_fields_given_away(
    parts: Sequence[Segment], complete: list[Segment], decodes: Decodes
) -> list[Segment]:
    """Give the first complete sample of a run the fields that it lacks.

    The fields come from a part of the same run that has them.

    For OpenCLIP a repeated field begins a sample. Other readers take the whole run for one sample,
    and may train on a field that OpenCLIP would leave in the part: on ``cls`` of
    ``1.cls 1.txt 1.txt 1.jpg``.
    """
    first_of_run: dict[int, int] = {}
    for index, sample in enumerate(complete):
        first_of_run.setdefault(sample.run, index)
    remaining: list[Segment] = []
    for part in parts:
        if part.run not in first_of_run:
            remaining.append(part)
            continue
        first = first_of_run[part.run]
        sample = complete[first]
        given: dict[str, Member] = {}
        kept: dict[str, Member] = {}
        for name, member in part.parts.items():
            if name not in sample.parts and decodes(name, member):
                given[name] = member
            else:
                kept[name] = member
        if given:
            complete[first] = replace(sample, parts=sample.parts | given)
        if kept:
            remaining.append(replace(part, parts=kept))
    return remaining


def _joined_parts(parts: Sequence[Segment]) -> list[Segment]:
    """Return samples of which each has the first parts with fields that it lacks."""
    members: list[list[Segment]] = []
    for part, index in zip(parts, _first_fit(parts, [], grow=True), strict=True):
        assert index is not None
        if index == len(members):
            members.append([])
        members[index].append(part)
    return [_joined(segments) for segments in members]


def _first_fit(
    parts: Sequence[Segment], fields: list[set[str]], *, grow: bool = False
) -> list[int | None]:
    """Return, for each part, the index of the first sample that has none of its fields.

    That sample has the fields afterwards.

    Args:
        parts: the parts of one key, in order.
        fields: of each sample; changed.
        grow: a part that fits no sample is a new one; otherwise its index is None.
    """
    indexes: list[int | None] = []
    # Samples only gain fields: where a part did not fit, no later part with the same fields does.
    # So the work is linear in the number of parts, also where thousands of them have one key.
    first_open: dict[frozenset[str], int] = {}
    for part in parts:
        names = frozenset(part.parts)
        index = first_open.get(names, 0)
        while index < len(fields) and fields[index] & names:
            index += 1
        first_open[names] = index
        if index < len(fields):
            fields[index] |= names
        elif grow:
            fields.append(set(names))
        else:
            indexes.append(None)
            continue
        indexes.append(index)
    return indexes


def _decodes_all(part: Segment, decodes: Decodes) -> bool:
    """Return whether readers decode all members of a segment."""
    return all(decodes(name, member) for name, member in part.parts.items())


def _joined(segments: Sequence[Segment]) -> Segment:
    """Return one segment with the members of several, where the first of them begins."""
    ordered = sorted(segments, key=lambda segment: segment.position)
    first = ordered[0].position
    last = ordered[-1].position
    joined = Segment(
        ordered[0].key,
        first,
        hidden=all(segment.hidden for segment in segments),
        separated=last - first >= len(ordered),
    )
    for segment in ordered:
        joined.parts.update(segment.parts)
    return joined


def _without_repeated(
    samples: Sequence[Segment], digest: Digest, merged: MergedSegments
) -> list[Segment]:
    """Return the samples of one key without unread duplicates.

    An unread duplicate is a sample that no reader trains on now and that only repeats others.
    """
    sizes: Counter[tuple[str, int]] = Counter()
    for sample in samples:
        sizes.update((name, member.size) for name, member in sample.parts.items())
    seen: set[tuple[str, bytes]] = set()
    kept: list[Segment] = []
    # First those that stay in any case.
    for sample in sorted(samples, key=lambda sample: (not sample.is_read, sample.position)):
        # Contents are read only if another member has the same size.
        repeated = {
            (name, digest(member))
            for name, member in sample.parts.items()
            if sizes[name, member.size] > 1
        }
        if not sample.is_read and len(repeated) == len(sample.parts) and repeated <= seen:
            merged.duplicates += len(sample.parts)
        else:
            seen |= repeated
            kept.append(sample)
    return kept
