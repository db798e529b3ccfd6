"""Changes to the fields of samples, computed from their shapes."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wdsflow.readers.wanted_fields import IMAGE_TROUBLE, extension_of
from wdsflow.repair.repair_plan import RepairPlan
from wdsflow.scan.content.other import kind_of
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import CAPTIONS, IMAGES, caption_name, is_side_image
from wdsflow.scan.shapes import Part, Run, Runs, Shape, ShapeCount
from wdsflow.scan.statuses import BAD, BLANK, EMPTY, NO_CAPTION, NOT_UTF8, OK, OPAQUE, UNKNOWN
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .base import is_option
from .folded_shapes import is_wild

Edit = Callable[[Shape, bool], Shape | None]
"""Takes a shape, and whether its json holds a caption; returns the changed shape, None if the sample is left out."""

CAPTION = "txt"
# Captions that a repair replaces by those in json.
_REPLACED = frozenset({EMPTY, BLANK, NOT_UTF8})
_LABELS = frozenset({"cls", "label", "class", "json", "jsn"})
# Pillow does not open these by itself.
_UNOPENED = frozenset({"heic", "heif", "jxl", "svg"})
_USUAL = (CAPTION, *IMAGE_FIELDS)


def other_names(shards: Sequence[ShardEvidence]) -> dict[str, str]:
    """Return the fields that may be a caption or an image under another name, each with the usual name."""
    names: dict[str, str] = {}
    empty = empty_fields(shards)
    for shard in shards:
        for name in shard.fields:
            if name in names or name in _USUAL or name in empty:
                continue
            if is_wild(shard, name) or not is_option(name):
                continue
            usual = _usual_name(name)
            if usual:
                names[name] = usual
    return names


def _usual_name(name: str) -> str:
    """Return the name that readers know for a field of captions or images; "" if it is neither."""
    extension = extension_of(name)
    if extension in CAPTIONS and extension not in _LABELS:
        return CAPTION
    if extension in IMAGES and extension not in _UNOPENED and not is_side_image(name):
        return extension if extension in ("png", "jpeg", "webp") else "jpg"
    return ""


def empty_fields(shards: Sequence[ShardEvidence]) -> set[str]:
    """Return the fields whose members are all empty; none if only names were read."""
    sizes: Counter[str] = Counter()
    for shard in shards:
        for name, field in shard.fields.items():
            sizes[name] += field.bytes
    if not sizes.total():
        return set()
    return {name for name, size in sizes.items() if not size}


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
        parts = {part.suffix: part for part in shape}
        for old, new in self.rename:
            if old in parts and new not in parts:
                renamed = [part if part.suffix != old else _renamed(part, new) for part in shape]
                shape = tuple(renamed)
                parts = {part.suffix: part for part in shape}
        replaces = CAPTION not in parts or parts[CAPTION].status in _REPLACED
        if self.caption and has_caption and "json" in parts and replaces:
            parts.pop(CAPTION, None)
            parts[CAPTION] = Part(CAPTION, OK)
        after = tuple(part for name, part in parts.items() if name not in self.drop)
        if not after or (self.drop_bad and is_bad(after)):
            return None
        return after


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
    if not images or not IMAGE_TROUBLE.isdisjoint(images):
        return True
    if CAPTION not in status or status[CAPTION] in (*_REPLACED, BAD):
        return True
    return status.get("json") == BAD


def with_caption(shape: Shape, has_caption: bool) -> Shape | None:
    """Return a shape after the pipeline stage in plain webdataset code, which leaves incomplete samples out."""
    after = ShapeEdits(caption="?")(shape, has_caption)
    names = {part.suffix for part in after or ()}
    if CAPTION not in names or names.isdisjoint(IMAGE_FIELDS):
        return None
    return after


def as_caption(shape: Shape, has_caption: bool) -> Shape:
    """Return the shape for a reader that takes the caption from json."""
    status = OK if has_caption else NO_CAPTION
    after = []
    for part in shape:
        is_json = part.suffix.lower() == "json" and part.status != BAD
        after.append(part._replace(status=status) if is_json else part)
    return tuple(after)


def changed(shards: Sequence[ShardEvidence], edit: Edit, caption: str = "") -> list[ShardEvidence]:
    """Return the evidence of shards after an edit of each sample; ``caption`` is the name in json that holds captions.

    Empty shards are left out.
    """
    edited = [replace(shard, runs=_runs(shard, edit, caption)) for shard in shards]
    return [shard for shard in edited if shard.runs.head is not None]


def is_known(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether the contents of all fields were read."""
    return all(part.status != UNKNOWN for shape in shapes_of(shards) for part in shape)


def is_plain(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether the fields of each sample have distinct names, in lower case."""
    for shape in shapes_of(shards):
        names = [part.suffix for part in shape]
        if len(set(names)) < len(names) or any(name != name.lower() for name in names):
            return False
    return True


def shapes_of(shards: Sequence[ShardEvidence]) -> set[Shape]:
    """Return the distinct shapes of samples."""
    return set().union(*(shard.runs.shapes() for shard in shards))


def _runs(shard: ShardEvidence, edit: Edit, caption: str) -> Runs:
    """Return the runs after an edit. If several shapes became one, their order is unknown."""
    edited = _edited(shard, edit, caption)
    if not edited:
        return Runs()
    head = _run_of(edited[0])
    if sum(item.count for item in edited) == 1:
        return Runs(head)
    tail = _run_of(edited[-1])
    if shard.runs.tail is not None:
        # The next shard's first sample may continue it.
        tail = tail._replace(key=shard.runs.tail.key)
    inner = []
    for item in edited:
        # The ends are counted by themselves.
        count = item.count - (item is edited[0]) - (item is edited[-1])
        if count:
            inner.append(replace(item, count=count))
    return Runs(head, tuple(inner), tail)


def _edited(shard: ShardEvidence, edit: Edit, caption: str) -> list[ShapeCount]:
    """Return the shapes after an edit, with the number of samples; those that are left out are missing."""
    # Shape -> samples whose json holds a caption.
    with_caption_left = dict(shard.json_keys[caption].shapes) if caption in shard.json_keys else {}
    edited: list[ShapeCount] = []
    for item in shard.runs.counted():
        captioned = min(with_caption_left.get(item.shape, 0), item.count)
        with_caption_left[item.shape] = with_caption_left.get(item.shape, 0) - captioned
        for count, has_caption in ((captioned, True), (item.count - captioned, False)):
            after = edit(item.shape, has_caption) if count else None
            if after is not None:
                edited.append(replace(item, shape=after, count=count, before=()))
    return edited


def _run_of(item: ShapeCount) -> Run:
    return Run(item.key, item.offset, item.shape)


def caption_edits(shards: Sequence[ShardEvidence]) -> ShapeEdits | None:
    """Return the edits that write captions from json; None if no name with captions fits into an option."""
    named = caption_name(shards)
    if named is None or not fits_option(named[0]):
        return None
    has_json = any("json" in shard.fields for shard in shards)
    return ShapeEdits(named[0], rename=() if has_json else (("jsn", "json"),))


def fits_option(name: str) -> bool:
    """Return whether a name in json can be written in an option."""
    return ";" not in name and name == name.strip()
