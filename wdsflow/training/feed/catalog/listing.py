"""From the members of a tar to its samples: neighbouring members of one key."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from wdsflow.pieces.tar_view import ViewSource
from wdsflow.shards.samples.grouping import ALL_SAMPLES, grouped
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.walk import Walk
from wdsflow.training.sample_tasks import NO_IMAGE, Blob, SampleRef
from wdsflow.training.stalls.loss_tally import NO_TAR, WRONG_CHECKSUM, Damage, FeedLoss

# Larger members of streams cannot be read as a whole.
_INSIDE_STREAM = 32 << 20
# Fields of a lost sample that are reported.
_FIELDS = 12

Listed: TypeAlias = SampleRef | FeedLoss


class RequiredMembers:
    """The members that samples need, and those that are read.

    Args:
        images: fields, the first of which that a sample has is its image.
        texts: fields of captions.
        needed: groups of fields; a sample needs one of each.
        everything: all members are read.
    """

    def __init__(
        self,
        images: Sequence[str],
        texts: Sequence[str],
        needed: Sequence[Sequence[str]],
        *,
        everything: bool,
    ) -> None:
        self.images, self.texts, self.needed, self.everything = images, texts, needed, everything
        # In this order, besides the image.
        self.read = tuple(dict.fromkeys((*texts, *chain.from_iterable(needed))))
        self._contents = frozenset((*images, *self.read))

    def reads(self, field: str) -> bool:
        """Return whether a member is read."""
        return self.everything or field in self._contents

    def in_words(self) -> list[str]:
        """Return in words what a sample must have."""
        words = ["an image"] * bool(self.images) + ["a caption"] * bool(self.texts)
        words += [" or ".join(group) for group in self.needed]
        return words or ["a member"]

    def sample(self, shard: Shard, key: str, fields: dict[str, Blob]) -> Listed:
        """Return the sample with these members, or why it is lost."""
        mark = fields.get("__bad__")
        if mark is not None and mark.size:
            return FeedLoss("select", "marked-bad", key, shard)
        image = next((fields[name] for name in self.images if name in fields), None)
        missing = []
        if image is None and self.images:
            missing.append("image")
        if self.texts and not any(name in fields for name in self.texts):
            missing.append("caption")
        missing += [group[0] for group in self.needed if not any(name in fields for name in group)]
        if missing:
            return FeedLoss(
                "select",
                f"no-{'-or-'.join(missing)}",
                key,
                shard,
                ", ".join(sorted(fields)[:_FIELDS]),
            )
        read = fields if self.everything else [name for name in self.read if name in fields]
        return SampleRef(shard, key, image or NO_IMAGE, tuple(fields[name] for name in read))


def list_samples(
    shard: Shard, source: Source, required: RequiredMembers, *, contents: bool, later: bool
) -> Iterator[Listed | Damage]:
    """Yield the samples of a shard, and at last its damage. Samples after it are listed, too.

    Args:
        shard: names it.
        source: its bytes.
        required: the members that samples need.
        contents: read the members: they cannot be read later.
        later: they can, and have their locations in the shard.
    """
    offset = source.view.real if isinstance(source, ViewSource) else int
    walk = Walk(source, contents=contents)
    key: str | None = None
    fields: dict[str, Blob] = {}
    for begins, next_key, suffix, row in grouped(walk, ALL_SAMPLES):
        if begins:
            if key is not None:
                yield required.sample(shard, key, fields)
            key, fields = next_key, {}
        _, size, data, _, kind = row
        if kind == "sparse":
            continue
        name = suffix.lower()
        read = contents and required.reads(name) and (source.random or size <= _INSIDE_STREAM)
        fields[name] = Blob(
            name, size, offset(data) if later else -1, walk.read(row) if read else None
        )
    if key is not None:
        yield required.sample(shard, key, fields)
    damage = _damage(shard, source, walk)
    if damage is not None:
        yield damage


def _damage(shard: Shard, source: Source, walk: Walk) -> Damage | None:
    stop = walk.stop
    distrusted = walk.seen.get("tar.damaged-stream")
    if distrusted is not None:
        return Damage(shard, WRONG_CHECKSUM, distrusted.detail)
    if stop is None or stop.kind == "end":
        return None
    if stop.kind == "unreadable":
        return Damage(shard, NO_TAR, stop.detail)
    kind = "no-end-mark" if stop.kind == "eof" and not source.cut else "cut"
    return Damage(shard, kind, f"{stop.detail} at byte {stop.offset:,}")
