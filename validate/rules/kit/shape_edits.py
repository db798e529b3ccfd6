"""Changes to the fields of a sample, computed from its shape.

Also facts about the shapes of all samples that are needed before a change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wdsflow.readers.wanted_fields import IMAGE_TROUBLE
from wdsflow.repair.repair_plan import RepairPlan
from wdsflow.scan.caption_names import caption_name
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Part, Shape
from wdsflow.scan.statuses import BAD, BLANK, EMPTY, NO_CAPTION, NOT_UTF8, OK, OPAQUE, UNKNOWN
from wdsflow.shards.shard_names import IMAGE_FIELDS

# Takes a shape, and whether its json holds a caption. Returns the changed shape, None if the sample
# is left out.
Edit = Callable[[Shape, bool], Shape | None]

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
        """Return the steps of a plan whose effect the evidence of a scan determines.

        They change names only, or need no more than that evidence.
        """
        caption = plan.caption.names[0] if plan.caption is not None else ""
        return ShapeEdits(caption, plan.rename, plan.drop_fields, plan.drop_bad)

    def __call__(self, shape: Shape, has_caption: bool) -> Shape | None:
        """Return the shape of a sample after a repair; None if the sample is left out.

        Its fields must have distinct names, in lower case.
        """
        # Of fields with the same name, a repair would write one.
        shape = tuple({part.suffix: part for part in shape}.values())
        for old, new in self.rename:
            shape = _with_renamed(shape, old, new)
        if self.caption and has_caption:
            shape = _with_caption_of_json(shape)
        after = tuple(part for part in shape if part.suffix not in self.drop)
        if not after:
            return None
        if self.drop_bad and is_bad(after):
            return None
        return after


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
    """Return a shape after the pipeline stage in plain webdataset code.

    None for an incomplete sample, which that stage leaves out.
    """
    after = ShapeEdits(caption="?")(shape, has_caption)
    if after is None:
        return None
    names = {part.suffix for part in after}
    if CAPTION not in names or names.isdisjoint(IMAGE_FIELDS):
        return None
    return after


def as_caption(shape: Shape, has_caption: bool) -> Shape:
    """Return the shape for a reader that takes the caption from json."""
    status = OK if has_caption else NO_CAPTION
    after: list[Part] = []
    for part in shape:
        if part.suffix.lower() == "json" and part.status != BAD:
            after.append(part._replace(status=status))
        else:
            after.append(part)
    return tuple(after)


def caption_edits(shards: Sequence[ShardEvidence]) -> ShapeEdits | None:
    """Return the edits that write captions from json.

    None if no name with captions fits into an option.
    """
    named = caption_name(shards)
    if named is None or not fits_option(named[0]):
        return None
    has_json = any("json" in shard.fields for shard in shards)
    return ShapeEdits(named[0], rename=() if has_json else (("jsn", "json"),))


def fits_option(name: str) -> bool:
    """Return whether a name in json can be written in an option."""
    return ";" not in name and name == name.strip()


def is_known(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether the contents of all fields were read."""
    statuses = {part.status for shape in shapes_of(shards) for part in shape}
    return UNKNOWN not in statuses


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


def _with_renamed(shape: Shape, old: str, new: str) -> Shape:
    """Return a shape with one field renamed.

    The shape is unchanged if it has no such field, or already has one of the new name.
    """
    names = {part.suffix for part in shape}
    if old not in names or new in names:
        return shape
    return tuple(_renamed(part, new) if part.suffix == old else part for part in shape)


def _renamed(part: Part, new: str) -> Part:
    """Return a part under another name, which may change how it is decoded."""
    kind = kind_of(new)
    if kind == kind_of(part.suffix):
        return part._replace(suffix=new)
    # It is of another column, too.
    return Part(new, OPAQUE if kind == "opaque" else UNKNOWN)


def _with_caption_of_json(shape: Shape) -> Shape:
    """Return a shape with a caption from json as its last part.

    The shape is unchanged if it has no json, or already has a usable caption.
    """
    status = {part.suffix: part.status for part in shape}
    if "json" not in status:
        return shape
    if CAPTION in status and status[CAPTION] not in _REPLACED:
        return shape
    others = tuple(part for part in shape if part.suffix != CAPTION)
    return (*others, Part(CAPTION, OK))
