"""The effect of shapes of samples on readers, for rules: losses by a fault, and missing fields."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from wdsflow.readers.base import BAD_MARK, Reader
from wdsflow.scan.evidence import (
    OK,
    OPAQUE,
    UNKNOWN,
    UNSAFE,
    Part,
    Shape,
    ShapeCount,
    ShardEvidence,
)
from wdsflow.scan.naming import CAPTIONS, IMAGES, is_dotted, is_numbered
from wdsflow.scan.runs import is_junk_run, merged

from .base import Context

# A base name with dots makes a field name of its rest: ``0 (x).jpg`` of ``photo 2.0 (x).jpg``.
# There may be as many of these as samples. In shapes for rules they are replaced by their number
# within the sample, so that the work grows with the number of different shapes.

# Cannot occur in names in a tar.
_MARK = "\0"


def is_wild(shard: ShardEvidence, suffix: str) -> bool:
    """Return whether a field name is the rest of a base name with dots, not a name that many samples share."""
    if "." not in suffix:
        return False
    lower = suffix.lower()
    if lower.startswith(("*.", _MARK)):
        return True
    if shard.numbered and is_numbered(lower):
        return False
    entry = shard.fields.get(lower)
    return is_dotted(lower) and (
        entry is None or entry.count < 2 or entry.count < shard.samples / 2
    )


def undotted(shard: ShardEvidence, part: Part) -> Part:
    """Return the part as if its member's base name had no dots; the same object if it has none."""
    if "." not in part.suffix or not is_wild(shard, part.suffix):
        return part
    return Part(part.suffix.rpartition(".")[2], part.status)


def fold(shard: ShardEvidence, shape: Shape) -> Shape:
    """Return an equivalent shape in which unusual field names are numbered, so that many samples share it."""
    if not any("." in part.suffix for part in shape):
        return shape
    numbers: dict[str, int] = {}
    return tuple(_numbered(shard, part, numbers) for part in shape)


def shown(suffix: str) -> str:
    r"""Return a field name for messages; it may be a numbered one.

    >>> shown("jpg"), shown("\x001.jpg")
    ('jpg', '*.jpg')
    """
    return "*." + suffix.partition(".")[2] if suffix.startswith(_MARK) else suffix


def _numbered(shard: ShardEvidence, part: Part, numbers: dict[str, int]) -> Part:
    suffix = part.suffix
    # Some readers treat names with __ or a newline specially.
    if suffix.startswith("__") or "\n" in suffix or not is_wild(shard, suffix):
        return part
    start, _, last = suffix.rpartition(".")
    if last == "gz":
        last = f"{start.rpartition('.')[2]}.gz"
    return Part(f"{_MARK}{numbers.setdefault(suffix, len(numbers))}.{last}", part.status)


FixPart = Callable[[Part], Part]
_KEPT = frozenset({OK, UNKNOWN, OPAQUE, UNSAFE})


class RuleLoss(NamedTuple):
    """The loss of one reader in one shard by one fault, if there were no other."""

    samples: int = 0
    crash: bool = False


def folded(
    context: Context, reader: Reader, shard: ShardEvidence, *, with_tail: bool = True
) -> tuple[ShapeCount, ...]:
    """Return the shapes of a shard for a reader; shapes that differ only in unusual field names are merged."""
    runs = reader.runs(shard)

    def merged_shapes() -> tuple[ShapeCount, ...]:
        found: dict[Shape, ShapeCount] = {}
        for item in runs.counted(with_tail=with_tail):
            shape = fold(shard, item.shape)
            first = found.get(shape)
            count = item.count + (first.count if first else 0)
            found[shape] = ShapeCount(shape, count, (first or item).key, (first or item).offset)
        return tuple(found.values())

    return context.once(("shapes", id(runs), with_tail), merged_shapes)


def loss(context: Context, reader: Reader, shard: ShardEvidence, fixed_part: FixPart) -> RuleLoss:
    """Return how many samples of a shard a reader would lose by one fault if they had no other fault.

    ``fixed_part`` returns a part without the fault, or the same object if it has none. A sample
    with two faults counts for both.
    """
    samples, crash = 0, False
    for item in folded(context, reader, shard):
        fixed = tuple(fixed_part(part) for part in item.shape)
        if fixed == item.shape:
            continue
        pairs = zip(item.shape, fixed, strict=True)
        faulty = tuple(part if part != better else valid_part(part) for part, better in pairs)
        repaired = valid(fixed)
        samples += (
            max(context.usable(reader, repaired) - context.usable(reader, faulty), 0) * item.count
        )
        crash = crash or (
            crashes(context, reader, faulty) and not crashes(context, reader, repaired)
        )
    return RuleLoss(samples, crash)


def crashes(context: Context, reader: Reader, shape: Shape) -> bool:
    """Return whether a reader raises at a run of that shape."""
    return any(fate.kind == "crash" for fate in context.fates(reader, shape))


def valid(shape: Shape) -> Shape:
    """Return the shape with all contents valid."""
    return tuple(valid_part(part) for part in shape)


def valid_part(part: Part) -> Part:
    """Return the part with valid contents."""
    # An empty field of this name is valid; with any content, readers drop the sample.
    kept = part.status in _KEPT or part.suffix.lower() == BAD_MARK
    return part if kept and part.fits else Part(part.suffix, part.status if kept else OK)


def fields_in(shape: Shape) -> set[str]:
    """Return the field names of a sample, in lower case."""
    return {part.suffix.lower() for part in shape}


def wanted(context: Context, reader: Reader, role: str) -> tuple[str, ...]:
    """Return the field names that a reader takes for the ``role`` ("image" or "caption"); () if it wants none."""
    images, captions = _candidates(reader)
    mine, others = (images, captions) if role == "image" else (captions, images)
    if any(context.usable(reader, (Part(name, OK),)) for name in others):
        # The other field alone is enough.
        return ()
    return tuple(
        name
        for name in mine
        if any(context.usable(reader, (Part(other, OK), Part(name, OK))) for other in others)
    )


def has_role(context: Context, reader: Reader, shape: Shape, role: str) -> bool:
    """Return whether a sample has a field that the reader takes for its image or caption, valid or not."""

    def usable_with_others() -> bool:
        images, captions = _candidates(reader)
        # Not a missing field.
        unmarked = tuple(part for part in valid(shape) if part.suffix.lower() != BAD_MARK)
        names = fields_in(unmarked)
        others = [name for name in (captions if role == "image" else images) if name not in names]
        return any(
            context.usable(reader, each)
            for each in [unmarked, *((*unmarked, Part(name, OK)) for name in others)]
        )

    return context.once((reader.name, role, shape), usable_with_others)


def _candidates(reader: Reader) -> tuple[list[str], list[str]]:
    paired = [*reader.paired_fields(), *(["txt"] if reader.pairs_with == "caption" else [])]
    return list(dict.fromkeys([*reader.image_fields(), "jpg"])), list(dict.fromkeys(paired))


Role = Literal["caption", "image"]
ROLES: tuple[Role, ...] = ("caption", "image")


@dataclass(slots=True)
class Lack:
    """Samples of one shard that lack the same fields for one reader."""

    reader: Reader
    shard: ShardEvidence
    roles: tuple[Role, ...]
    # "json, jpg": the fields of the first of them.
    fields: str
    # The field that may serve instead, "" if there is none.
    instead: str
    # Key of the first of them.
    shape: Shape
    count: int = 0
    key: str = ""
    offset: int = 0


class Wants(NamedTuple):
    """The fields that one reader needs, and those of them that no sample has."""

    reader: Reader
    names: dict[Role, tuple[str, ...]]
    absent: tuple[Role, ...]


def wants(context: Context) -> list[Wants]:
    """Return the needs of readers, without readers that take any sample."""
    needs = (
        (reader, {role: wanted(context, reader, role) for role in ROLES})
        for reader in context.readers
    )
    return [
        Wants(
            reader,
            names,
            tuple(role for role in ROLES if names[role] and not _somewhere(context, reader, role)),
        )
        for reader, names in needs
        if any(names.values())
    ]


def _somewhere(context: Context, reader: Reader, role: Role) -> bool:
    """Return whether any sample would have the role if base names had no dots, which W010 reports."""
    return any(
        has_role(context, reader, tuple(undotted(shard, part) for part in item.shape), role)
        for shard in context.evidence.shards
        for item in folded(context, reader, shard)
    )


def lacks(context: Context, want: Wants) -> Iterator[Lack]:
    """Yield the samples that lack a role that others have, by shard, missing roles and field to use instead."""
    roles = [role for role in ROLES if want.names[role] and role not in want.absent]
    for shard in context.evidence.shards:
        rows: dict[tuple[tuple[Role, ...], str], Lack] = {}
        cut = shard.stop.kind in ("silent", "error") or (
            shard.stop.kind == "eof" and missing_at_end(shard)
        )
        hidden = _hidden(want.reader, shard, with_tail=not cut)
        # W001, W002 or W018 report a truncated sample.
        for item in folded(context, want.reader, shard, with_tail=not cut):
            if is_junk_run(item.key, item.shape):
                # macOS twins and dot-files in folders: W012.
                continue
            missing = tuple(
                role for role in roles if not has_role(context, want.reader, item.shape, role)
            )
            fixed = tuple(undotted(shard, part) for part in item.shape)
            if not missing or (
                fixed != item.shape
                and all(has_role(context, want.reader, fixed, role) for role in missing)
            ):
                continue
            instead = (
                alternative(want.reader, shard, item.shape, missing[0]) if len(missing) == 1 else ""
            )
            lack = rows.get((missing, instead))
            if lack is None:
                fields = ", ".join(sorted({shown(part.suffix).lower() for part in item.shape}))
                lack = Lack(
                    want.reader,
                    shard,
                    missing,
                    fields,
                    instead,
                    item.shape,
                    0,
                    item.key,
                    item.offset,
                )
                rows[missing, instead] = lack
            lack.count += item.count + hidden[item.shape]
        yield from rows.values()


def _hidden(reader: Reader, shard: ShardEvidence, *, with_tail: bool) -> Counter[Shape]:
    """Return how many samples were merged into others by dots in base names, by the folded shapes of the others."""
    found: Counter[Shape] = Counter()
    if shard.tally("name.dotted").count:
        for item in reader.runs(shard).counted(with_tail=with_tail):
            found[fold(shard, item.shape)] += item.count * merged(
                item.shape, partial(is_wild, shard)
            )
    return found


def alternative(reader: Reader, shard: ShardEvidence, shape: Shape, role: Role) -> str:
    """Return the field of a sample that may serve as its caption, label or image, "" if there is none.

    A field such as ``outputs.txt`` counts by its last part. The rest of a dotted base name does not
    count: W010 reports it.
    """
    known = (
        IMAGES
        if role == "image"
        else CAPTIONS
        if reader.pairs_with == "caption"
        else tuple(reader.aliases)
    )
    lasts = {
        (name := part.suffix.lower()): name.removesuffix(".gz").rpartition(".")[2] for part in shape
    }
    fit = [name for name, last in lasts.items() if last in known and not is_wild(shard, name)]
    return min(fit, key=lambda name: known.index(lasts[name]), default="")


def missing_at_end(shard: ShardEvidence) -> str:
    """Return the fields that most samples of a shard have and its last one lacks."""
    last = shard.runs.last
    others = [
        item
        for item in shard.runs.counted(with_tail=False)
        if not is_junk_run(item.key, item.shape)
    ]
    if last is None or not others:
        return ""
    usual = max(others, key=lambda item: item.count)
    if usual.count * 2 < sum(item.count for item in others):
        return ""
    return ", ".join(sorted(fields_in(usual.shape) - fields_in(last.shape)))
