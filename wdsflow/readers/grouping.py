"""How readers cut a run (neighbouring members of one key) into samples."""

from collections.abc import Container, Sequence

from wdsflow.scan.evidence import EMPTY, Part, Shape

from .base import Fate, FateKind

# Readers keep these next to the fields, so a member with such a field name counts as a repetition.
KEY, URL, BAD_MARK = "__key__", "__url__", "__bad__"

Sample = dict[str, Part]  # by the field name as the reader keeps it


def split_at_repeats(shape: Shape) -> list[Sample]:
    """Cut a run into samples as OpenCLIP's ``group_by_keys_nothrow`` does: a repeated field begins a new one."""
    samples: list[Sample] = []
    fresh = True  # a member .__key__ replaces the sample's key, so that no later member belongs to it
    for part in shape:
        suffix = part.suffix.lower()
        if fresh or suffix in samples[-1] or suffix in (KEY, URL):
            samples.append({})
        samples[-1][suffix] = Part(suffix, part.status)
        fresh = suffix == KEY
    return samples


def first_repeat(shape: Shape, reserved: Container[str], *, lower: bool) -> Part | None:
    """Return the first member whose field the run has already or that is reserved; None if there is none."""
    seen: set[str] = set()
    for part in shape:
        suffix = part.suffix.lower() if lower else part.suffix
        if suffix in seen or suffix in reserved:
            return part
        seen.add(suffix)
    return None


def is_marked_bad(sample: Sample) -> bool:
    """Return whether readers throw the sample away because it has a member ``.__bad__`` that is not empty."""
    mark = sample.get(BAD_MARK)
    return mark is not None and mark.status != EMPTY


MARKED_BAD = Fate("dropped", "group", "marked-bad", BAD_MARK)


def first_of(names: Sequence[str], sample: Sample) -> Part | None:
    """Return the field that comes first in ``names``, as webdataset's ``getfirst`` does; None if none is there."""
    return next((sample[name] for name in names if name in sample), None)


def incomplete(image: bool, paired: bool, kind: FateKind, pairs_with: str = "caption") -> Fate | None:
    """Return the fate of a sample that lacks its image, its caption (or label), or both; None if it has both."""
    if image and paired:
        return None
    reason = f"no-image-or-{pairs_with}" if not (image or paired) else f"no-{pairs_with}" if image else "no-image"
    return Fate(kind, "filter", reason)
