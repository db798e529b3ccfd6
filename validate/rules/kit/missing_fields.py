"""Finds samples that lack a field that a reader needs, and which field they have instead; for F101, F102, F103."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import Shape, ShardEvidence
from wdsflow.scan.naming import CAPTIONS, IMAGES
from wdsflow.scan.shapes import merged
from wdsflow.shards.tar.member_names import is_junk

from .base import Context
from .shape_rule import fields_in, folded, has_role, wanted
from .unusual_names import fold, is_wild, shown, undotted

Role = Literal["caption", "image"]
ROLES: tuple[Role, ...] = ("caption", "image")


@dataclass(slots=True)
class Lack:
    """Samples of one shard that lack one thing for one reader."""

    reader: Reader
    shard: ShardEvidence
    roles: tuple[Role, ...]
    fields: str  # "json, jpg": the fields of the first of them
    instead: str  # the field that may serve instead, "" if there is none
    shape: Shape  # key of the first of them
    count: int = 0
    key: str = ""
    offset: int = 0


@dataclass(slots=True)
class Wants:
    """The fields that one reader needs, and those of them that no sample has."""

    reader: Reader
    names: dict[Role, tuple[str, ...]] = field(default_factory=dict)
    absent: tuple[Role, ...] = ()


def wants(context: Context) -> list[Wants]:
    """Return the needs of readers, without readers that take any sample."""
    found = []
    for reader in context.readers:
        names = {role: wanted(context, reader, role) for role in ROLES}
        if not any(names.values()):
            continue
        absent = tuple(role for role in ROLES if names[role] and not _somewhere(context, reader, role))
        found.append(Wants(reader, names, absent))
    return found


def _somewhere(context: Context, reader: Reader, role: Role) -> bool:
    """Return whether any sample would have it if base names had no dots; W010 reports those."""
    return any(
        has_role(context, reader, tuple(undotted(shard, part) for part in item.shape), role)
        for shard in context.evidence.shards
        for item in folded(context, reader, shard)
    )


def lacks(context: Context, want: Wants) -> Iterator[Lack]:
    """Yield partial losses: for each shard, one for each missing role and each field that is there instead."""
    roles = [role for role in ROLES if want.names[role] and role not in want.absent]
    for shard in context.evidence.shards:
        rows: dict[tuple[tuple[Role, ...], str], Lack] = {}
        cut = shard.stop.kind in ("silent", "error") or (shard.stop.kind == "eof" and missing_at_end(shard))
        hidden = _hidden(want.reader, shard, with_tail=not cut)
        # W001, W002 or W018 report a cut sample.
        for item in folded(context, want.reader, shard, with_tail=not cut):
            if is_junk(item.key):
                continue  # macOS twins and dot-files in folders: W012
            missing = tuple(role for role in roles if not has_role(context, want.reader, item.shape, role))
            if not missing or _dots_explain(context, want.reader, shard, item.shape, missing):
                continue
            instead = alternative(want.reader, shard, item.shape, missing[0]) if len(missing) == 1 else ""
            lack = rows.get((missing, instead))
            if lack is None:
                fields = ", ".join(sorted({shown(part.suffix).lower() for part in item.shape}))
                lack = Lack(want.reader, shard, missing, fields, instead, item.shape, 0, item.key, item.offset)
                rows[missing, instead] = lack
            lack.count += item.count + hidden[item.shape]
        yield from rows.values()


def _hidden(reader: Reader, shard: ShardEvidence, *, with_tail: bool) -> Counter[Shape]:
    """Return how many samples dots in base names have merged into others, by the folded shapes of those."""
    found: Counter[Shape] = Counter()
    if shard.tally("name.dotted").count:
        for item in reader.runs(shard).counted(with_tail=with_tail):
            found[fold(shard, item.shape)] += item.count * merged(item.shape, partial(is_wild, shard))
    return found


def _dots_explain(
    context: Context, reader: Reader, shard: ShardEvidence, shape: Shape, missing: tuple[Role, ...]
) -> bool:
    fixed = tuple(undotted(shard, part) for part in shape)
    return fixed != shape and all(has_role(context, reader, fixed, role) for role in missing)


def alternative(reader: Reader, shard: ShardEvidence, shape: Shape, role: Role) -> str:
    """Return the field of a sample that may serve as its caption, label or image, "" if there is none.

    A field such as ``outputs.txt`` counts by its last part. The rest of a dotted base name does not count: W010 reports
    it.
    """
    known = IMAGES if role == "image" else CAPTIONS if reader.pairs_with == "caption" else tuple(reader.aliases)
    lasts = {(name := part.suffix.lower()): name.removesuffix(".gz").rpartition(".")[2] for part in shape}
    fit = [name for name, last in lasts.items() if last in known and not is_wild(shard, name)]
    return min(fit, key=lambda name: known.index(lasts[name]), default="")


def missing_at_end(shard: ShardEvidence) -> str:
    """Return the fields that most samples of a shard have and its last one lacks."""
    last = shard.runs.last
    others = [item for item in shard.runs.counted(with_tail=False) if not is_junk(item.key)]
    if last is None or not others:
        return ""
    usual = max(others, key=lambda item: item.count)
    if usual.count * 2 < sum(item.count for item in others):
        return ""
    return ", ".join(sorted(fields_in(usual.shape) - fields_in(last.shape)))
