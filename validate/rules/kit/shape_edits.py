"""Changes to the fields of samples, computed from their shapes."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wdsflow.readers.wanted_fields import IMAGE_TROUBLE
from wdsflow.repair.repair_plan import RepairPlan
from wdsflow.scan.content.other import kind_of
from wdsflow.scan.evidence import (
    BAD,
    BLANK,
    EMPTY,
    NO_CAPTION,
    NOT_UTF8,
    OK,
    OPAQUE,
    UNKNOWN,
    Part,
    Run,
    Runs,
    Shape,
    ShapeCount,
    ShardEvidence,
)
from wdsflow.scan.naming import CAPTIONS, IMAGES, caption_name, is_side_image
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .base import is_option
from .folded_shapes import is_wild

_LABELS = frozenset({"cls", "label", "class", "json", "jsn"})
# Pillow does not open these by itself.
_UNOPENED = frozenset({"heic", "heif", "jxl", "svg"})
_USUAL = ("txt", *IMAGE_FIELDS)


def other_names(shards: Sequence[ShardEvidence]) -> dict[str, str]:
    """Return the fields that may be a caption or an image under another name, each with the usual name."""
    found: dict[str, str] = {}
    empty = empty_fields(shards)
    for shard in shards:
        for name in shard.fields:
            last = name.removesuffix(".gz").rpartition(".")[2]
            if (
                name in found
                or name in _USUAL
                or name in empty
                or is_wild(shard, name)
                or not is_option(name)
            ):
                continue
            if last in CAPTIONS and last not in _LABELS:
                found[name] = "txt"
            elif last in IMAGES and last not in _UNOPENED and not is_side_image(name):
                found[name] = last if last in ("png", "jpeg", "webp") else "jpg"
    return found


def empty_fields(shards: Sequence[ShardEvidence]) -> set[str]:
    """Return the fields whose members are all empty; none if only names were read."""
    sizes: Counter[str] = Counter()
    for shard in shards:
        for name, found in shard.fields.items():
            sizes[name] += found.bytes
    return {name for name, size in sizes.items() if not size} if sizes.total() else set()


Edit = Callable[[Shape, bool], Shape | None]
"""Takes a shape, and whether its json holds a caption; returns the changed shape, None if the sample is left out."""

CAPTION = "txt"
# Captions that a repair replaces by those in json.
_REPLACED = frozenset({EMPTY, BLANK, NOT_UTF8})


@dataclass(frozen=True)
class ShapeEdits:
    """Steps of a repair whose effect on a sample is known from its shape."""

    # Name in json.
    caption: str = ""
    rename: tuple[tuple[str, str], ...] = ()
    # Fields.
    drop: tuple[str, ...] = ()
    drop_bad: bool = False

    @staticmethod
    def of_plan(plan: RepairPlan) -> "ShapeEdits":
        """Return the steps of a plan that change names only, or that need no more than the evidence of a scan."""
        caption = plan.caption.names[0] if plan.caption is not None else ""
        return ShapeEdits(caption, plan.rename, plan.drop_fields, plan.drop_bad)

    def __call__(self, shape: Shape, has_caption: bool) -> Shape | None:
        """Return the shape of a sample after a repair; its fields must have distinct names, in lower case."""
        parts = dict(zip((part.suffix for part in shape), shape, strict=True))
        for old, new in self.rename:
            if old in parts and new not in parts:
                found = [
                    _renamed(part, new) if name == old else part for name, part in parts.items()
                ]
                parts = {part.suffix: part for part in found}
        replaces = CAPTION not in parts or parts[CAPTION].status in _REPLACED
        if self.caption and has_caption and "json" in parts and replaces:
            parts.pop(CAPTION, None)
            parts[CAPTION] = Part(CAPTION, OK)
        after = tuple(part for name, part in parts.items() if name not in self.drop)
        return None if not after or (self.drop_bad and is_bad(after)) else after


def _renamed(part: Part, new: str) -> Part:
    """Return a part under another name, which may change how it is decoded."""
    kind = kind_of(new)
    if kind == kind_of(part.suffix):
        return part._replace(suffix=new)
    # It is of another column, too.
    return Part(new, OPAQUE if kind == "opaque" else UNKNOWN)


def is_bad(shape: Shape) -> bool:
    """Return whether ``wdsflow repair --drop-bad`` leaves a sample out."""
    status = {part.suffix: part.status for part in shape}
    images = [status[name] for name in IMAGE_FIELDS if name in status]
    return (
        not images
        or CAPTION not in status
        or status[CAPTION] in (*_REPLACED, BAD)
        or status.get("json") == BAD
        or not IMAGE_TROUBLE.isdisjoint(images)
    )


def with_caption(shape: Shape, has_caption: bool) -> Shape | None:
    """Return a shape after the pipeline stage in plain webdataset code, which leaves incomplete samples out."""
    after = ShapeEdits(caption="?")(shape, has_caption)
    names = {part.suffix for part in after or ()}
    return after if CAPTION in names and not names.isdisjoint(IMAGE_FIELDS) else None


def as_caption(shape: Shape, has_caption: bool) -> Shape:
    """Return the shape for a reader that takes the caption from json."""
    status = OK if has_caption else NO_CAPTION
    return tuple(
        part._replace(status=status)
        if part.suffix.lower() == "json" and part.status != BAD
        else part
        for part in shape
    )


def changed(shards: Sequence[ShardEvidence], edit: Edit, caption: str = "") -> list[ShardEvidence]:
    """Return the evidence of shards after an edit of each sample; ``caption`` is the name in json that holds captions.

    Empty shards are left out.
    """
    found = [replace(shard, runs=_runs(shard, edit, caption)) for shard in shards]
    return [shard for shard in found if shard.runs.head is not None]


def is_known(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether the contents of all fields were read."""
    return all(part.status != UNKNOWN for shape in shapes_of(shards) for part in shape)


def is_plain(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether the fields of each sample have distinct names, in lower case."""
    names = ([part.suffix for part in shape] for shape in shapes_of(shards))
    return all(
        len(set(each)) == len(each) and "".join(each).lower() == "".join(each) for each in names
    )


def shapes_of(shards: Sequence[ShardEvidence]) -> set[Shape]:
    """Return the distinct shapes of samples."""
    return set().union(*(shard.runs.shapes() for shard in shards))


def _runs(shard: ShardEvidence, edit: Edit, caption: str) -> Runs:
    """Return the runs after an edit. If several shapes became one, their order is unknown."""
    captioned = dict(shard.json_keys[caption].shapes) if caption in shard.json_keys else {}
    left: list[ShapeCount] = []
    for item in shard.runs.counted():
        having = min(captioned.get(item.shape, 0), item.count)
        captioned[item.shape] = captioned.get(item.shape, 0) - having
        for count, has_caption in ((having, True), (item.count - having, False)):
            if count and (after := edit(item.shape, has_caption)) is not None:
                left.append(replace(item, shape=after, count=count, before=()))
    if not left:
        return Runs()
    head, last = (Run(item.key, item.offset, item.shape) for item in (left[0], left[-1]))
    if shard.runs.tail is not None:
        # The next shard's first sample may continue it.
        last = last._replace(key=shard.runs.tail.key)
    if sum(item.count for item in left) == 1:
        return Runs(head)
    inner = [
        replace(item, count=item.count - (item is left[0]) - (item is left[-1])) for item in left
    ]
    return Runs(head, tuple(item for item in inner if item.count), last)


def caption_edits(shards: Sequence[ShardEvidence]) -> ShapeEdits | None:
    """Return the edits that write captions from json; None if no name with captions fits into an option."""
    named = caption_name(shards)
    if named is None or not fits_option(named[0]):
        return None
    json = any("json" in shard.fields for shard in shards)
    return ShapeEdits(named[0], () if json else (("jsn", "json"),))


def fits_option(name: str) -> bool:
    """Return whether a name in json can be written in an option."""
    return ";" not in name and name == name.strip()
