"""Signs that images and texts of one sample are apart, or that a name hides what a member is."""

from collections.abc import Collection, Sequence

from wdsflow.repair.pairing import CAPTIONS_ALONE
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import CAPTIONS, IMAGES, is_side_image
from wdsflow.scan.shapes import Shape

from ..rules.kit.shape_edits import shapes_of


def may_pair(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether there are images and texts without a partner, or names that hide a pair."""
    shapes = shapes_of(shards)
    if any(_hides_pair(part.suffix) for shape in shapes for part in shape):
        return True
    has_lone_image = False
    has_lone_text = False
    for shape in shapes:
        has_image = _has(shape, IMAGES)
        # json or a label next to an image may be no caption.
        if has_image and not _has(shape, CAPTIONS_ALONE):
            has_lone_image = True
        if _has(shape, CAPTIONS) and not has_image:
            has_lone_text = True
    return has_lone_image and has_lone_text


def may_lack_image_name(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether images may be hidden under names that are not image names.

    That is so if there are texts without an image, and members whose names do not state their type.
    """
    shapes = shapes_of(shards)
    with_text = [shape for shape in shapes if _has(shape, CAPTIONS)]
    if all(_has(_without_masks(shape), IMAGES) for shape in with_text):
        return False
    if any(shard.tally("name.no-field").count for shard in shards):
        return True
    parts = {part for shape in shapes for part in shape}
    return any(not _has((part,), (*IMAGES, *CAPTIONS)) for part in parts)


def _has(shape: Shape, extensions: Collection[str]) -> bool:
    """Return whether a sample has a field with one of some extensions."""
    for part in shape:
        name = part.suffix.lower().strip()
        if name.rpartition(".")[2] in extensions:
            return True
    return False


def _without_masks(shape: Shape) -> Shape:
    """Return the fields of a sample without images that belong to another one, such as masks."""
    return tuple(part for part in shape if not is_side_image(part.suffix.lower()))


def _hides_pair(suffix: str) -> bool:
    """Return whether a field name is like ``txt`` with a space, or ``jpg.txt``."""
    if suffix != suffix.strip():
        return True
    first, _, last = suffix.lower().rpartition(".")
    return first in IMAGES and last in (*IMAGES, *CAPTIONS)
