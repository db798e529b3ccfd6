"""From the members of a tar to its samples: neighbouring members of one key."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from wdsflow.joining.index.row_index import NO_ROW, WITHHELD
from wdsflow.joining.joined_fields import JSON, JoinedFields
from wdsflow.pieces.view_source import ViewSource
from wdsflow.shards.caption_field import LARGEST
from wdsflow.shards.samples.grouping import ALL_SAMPLES, group_members
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.walk import Walk
from wdsflow.training.sample_tasks import NO_IMAGE, Blob, SampleRef
from wdsflow.training.stalls.loss_tally import NO_TAR, WRONG_CHECKSUM, Damage, FeedLoss

# Larger members of streams cannot be read as a whole.
_INSIDE_STREAM = 32 << 20
# Fields of a lost sample that are reported.
_FIELDS = 12
# The reason of samples that get no row of the table that is joined.
NO_ROW_REASON = "no-row"

_NOTHING: frozenset[str] = frozenset()

Listed: TypeAlias = SampleRef | FeedLoss


class RequiredMembers:
    """The members that samples need, and those that are read.

    Args:
        images: fields, the first of which that a sample has is its image.
        texts: fields of captions.
        needed: groups of fields; a sample needs one of each.
        everything: all members are read.
        join: gives samples fields of a table.
    """

    def __init__(
        self,
        images: Sequence[str],
        texts: Sequence[str],
        needed: Sequence[Sequence[str]],
        *,
        everything: bool,
        join: JoinedFields | None = None,
    ) -> None:
        self.images, self.texts, self.needed, self.everything = images, texts, needed, everything
        # In this order, besides the image.
        self.read = tuple(dict.fromkeys((*texts, *chain.from_iterable(needed))))
        self._join = join
        if join is not None and join.checks_json and JSON not in self.read:
            self.read = (*self.read, JSON)
        self._contents = frozenset((*images, *self.read))
        # The json of each sample is read to list it.
        self.joins_json = join is not None and join.needs_json

    def reads(self, field: str) -> bool:
        """Return whether a member is read."""
        return self.everything or field in self._contents or (self.joins_json and field == JSON)

    def requirements(self) -> list[str]:
        """Return in words what a sample must have."""
        words = ["an image"] * bool(self.images) + ["a caption"] * bool(self.texts)
        words += [" or ".join(group) for group in self.needed]
        return words or ["a member"]

    def sample(
        self,
        shard: Shard,
        number: int,
        key: str,
        fields: dict[str, Blob],
        json: bytes | None = None,
    ) -> Listed:
        """Return the sample with these members, or why it is lost.

        Args:
            shard: has the sample.
            number: of the sample in the shard.
            key: of the sample.
            fields: its members.
            json: the content of its json, if that is needed.
        """
        # Also of a sample that is lost: others may have its row.
        row = NO_ROW if self._join is None else self._join.row_of(shard, number, key, json)
        mark = fields.get("__bad__")
        if mark is not None and mark.size:
            return FeedLoss("select", "marked-bad", key, shard)
        if self._join is not None:
            names = None
            if row >= 0:
                json_size = fields[JSON].size if JSON in fields else 0
                names = self._join.fields_of_row(row, json, json_size)
            return self._joined(self._join, shard, key, fields, row, names)
        loss = self._loss(shard, key, fields, _NOTHING)
        return loss or self._ref(shard, key, fields, fields)

    def _joined(
        self,
        join: JoinedFields,
        shard: Shard,
        key: str,
        fields: dict[str, Blob],
        row: int,
        names: frozenset[str] | None,
    ) -> Listed:
        """Return a sample with the fields that its row sets, or why it is lost.

        ``names``: the fields that the row sets; None if it sets none.
        """
        if join.leaves_out(row):
            return FeedLoss("select", NO_ROW_REASON, key, shard)
        loss = self._loss(shard, key, fields, names or _NOTHING)
        if loss is not None:
            has_none = row in (NO_ROW, WITHHELD)
            if has_none and self._loss(shard, key, fields, join.fields_set) is None:
                return loss._replace(reason=NO_ROW_REASON)
            return loss
        if names is None:
            return self._ref(shard, key, fields, fields)
        read = fields
        # Members that a value replaces are read only where their order counts. The old json gets
        # values, or is compared with the row.
        if not self.everything:
            replaced = names - {JSON} if join.sets_in_json or join.checks_json else names
            read = {name: blob for name, blob in fields.items() if name not in replaced}
        return self._ref(shard, key, fields, read, row)

    def _loss(
        self, shard: Shard, key: str, fields: dict[str, Blob], added: frozenset[str]
    ) -> FeedLoss | None:
        """Return why a sample is lost that has these members and ``added`` ones.

        None if it is not lost.
        """
        missing = []
        if self.images and not any(name in fields for name in self.images):
            missing.append("image")
        present = fields.keys() | added if added else fields.keys()
        if self.texts and present.isdisjoint(self.texts):
            missing.append("caption")
        missing += [group[0] for group in self.needed if present.isdisjoint(group)]
        if not missing:
            return None
        shown = ", ".join(sorted(fields)[:_FIELDS])
        return FeedLoss("select", f"no-{'-or-'.join(missing)}", key, shard, shown)

    def _ref(
        self,
        shard: Shard,
        key: str,
        fields: dict[str, Blob],
        read: dict[str, Blob],
        row: int = NO_ROW,
    ) -> SampleRef:
        """Return the reference to a sample.

        ``read``: its members that may be read, apart from the image.
        """
        image = next((fields[name] for name in self.images if name in fields), NO_IMAGE)
        names = read if self.everything else [name for name in self.read if name in read]
        return SampleRef(shard, key, image, tuple(read[name] for name in names), row)


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
    offset = source.view.source_offset if isinstance(source, ViewSource) else int
    walk = Walk(source, contents=contents)
    key: str | None = None
    number = 0
    fields: dict[str, Blob] = {}
    json: bytes | None = None
    for begins, next_key, suffix, row in group_members(walk, ALL_SAMPLES):
        if begins:
            if key is not None:
                yield required.sample(shard, number, key, fields, json)
                number += 1
            key, fields, json = next_key, {}, None
        _, size, data, _, kind = row
        if kind == "sparse":
            continue
        name = suffix.lower()
        read = contents and required.reads(name) and (source.is_seekable or size <= _INSIDE_STREAM)
        blob = Blob(name, size, offset(data) if later else -1, walk.read(row) if read else None)
        fields[name] = blob
        if required.joins_json and name == JSON and size <= LARGEST:
            json = source.read_at(data, size) if blob.data is None else blob.data
    if key is not None:
        yield required.sample(shard, number, key, fields, json)
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
    kind = "no-end-mark" if stop.kind == "eof" and not source.is_truncated else "cut"
    return Damage(shard, kind, f"{stop.detail} at byte {stop.offset:,}")
