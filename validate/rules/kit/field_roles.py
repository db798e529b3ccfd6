"""Which fields of a sample a reader takes for its image and its caption."""

from typing import Literal

from wdsflow.readers.base import BAD_MARK, Reader
from wdsflow.readers.wanted_fields import extension_of
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import CAPTIONS, IMAGES
from wdsflow.scan.shapes import Part, Shape
from wdsflow.scan.statuses import OK

from .base import Context
from .folded_shapes import is_wild
from .rule_loss import valid

# A label counts as a caption where readers pair images with labels.
Role = Literal["caption", "image"]
ROLES: tuple[Role, ...] = ("caption", "image")


def fields_in(shape: Shape) -> set[str]:
    """Return the field names of a sample, in lower case."""
    return {part.suffix.lower() for part in shape}


def accepted_fields(context: Context, reader: Reader, role: Role) -> tuple[str, ...]:
    """Return the field names that a reader takes for a role; () if it needs none."""
    images, captions = _candidates(reader)
    if role == "image":
        candidates, others = images, captions
    else:
        candidates, others = captions, images
    if any(context.usable(reader, (Part(name, OK),)) for name in others):
        # The other field alone is enough.
        return ()
    accepted = []
    for name in candidates:
        pairs = [(Part(other, OK), Part(name, OK)) for other in others]
        if any(context.usable(reader, pair) for pair in pairs):
            accepted.append(name)
    return tuple(accepted)


def has_role(context: Context, reader: Reader, shape: Shape, role: Role) -> bool:
    """Return whether a sample has a field that the reader takes for its image or caption.

    The field need not be valid.
    """

    def has_it() -> bool:
        # A mark is not a missing field.
        unmarked = tuple(part for part in valid(shape) if part.suffix.lower() != BAD_MARK)
        if _has_role(context, reader, unmarked, role):
            return True
        # Nor is a name that occurs twice, a reserved one, or a field at which the reader raises.
        images, captions = _candidates(reader)
        candidates = {*images, *captions}
        paired = dict.fromkeys(part for part in unmarked if part.suffix.lower() in candidates)
        by_name = {part.suffix.lower(): part for part in reversed(list(paired))}
        return any(
            _has_role(context, reader, tuple(parts), role) for parts in (paired, by_name.values())
        )

    return context.cached((reader.name, role, shape), has_it)


def _has_role(context: Context, reader: Reader, shape: Shape, role: Role) -> bool:
    """Return whether a valid sample is usable as it is, or with a field for the other role."""
    if context.usable(reader, shape):
        return True
    images, captions = _candidates(reader)
    names = fields_in(shape)
    for name in captions if role == "image" else images:
        if name not in names and context.usable(reader, (*shape, Part(name, OK))):
            return True
    return False


def alternative(reader: Reader, shard: ShardEvidence, shape: Shape, role: Role) -> str:
    """Return the field of a sample that may be its caption, label or image; "" if there is none.

    A field such as ``outputs.txt`` counts by its last part. The rest of a dotted base name does not
    count: W010 reports it.
    """
    extensions: tuple[str, ...]
    if role == "image":
        extensions = IMAGES
    elif reader.pairs_with == "caption":
        extensions = CAPTIONS
    else:
        extensions = tuple(reader.aliases)
    # Field -> its rank: extensions come in the order of preference.
    candidates: dict[str, int] = {}
    for part in shape:
        name = part.suffix.lower()
        extension = extension_of(name)
        if extension in extensions and not is_wild(shard, name):
            candidates[name] = extensions.index(extension)
    return min(candidates, key=lambda name: candidates[name], default="")


def _candidates(reader: Reader) -> tuple[list[str], list[str]]:
    """Return the names that a reader may take for images, and those for captions or labels."""
    images = [*reader.image_fields(), "jpg"]
    captions = list(reader.paired_fields())
    if reader.pairs_with == "caption":
        captions.append("txt")
    return list(dict.fromkeys(images)), list(dict.fromkeys(captions))
