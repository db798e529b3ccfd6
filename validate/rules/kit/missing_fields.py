"""Samples that have no field which a reader needs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.runs import count_merged_samples, is_junk_run
from wdsflow.scan.shapes import Shape

from .base import Context
from .field_roles import ROLES, Role, accepted_fields, alternative, fields_in, has_role
from .folded_shapes import display_name, fold_shape, folded_shapes, is_wild, without_dots


class FieldNeeds(NamedTuple):
    """The fields that one reader needs, and those of them that no sample has."""

    reader: Reader
    names: dict[Role, tuple[str, ...]]
    absent: tuple[Role, ...]


@dataclass(slots=True)
class IncompleteSamples:
    """Samples of one shard without the same fields for one reader."""

    reader: Reader
    shard: ShardEvidence
    # What is missing.
    roles: tuple[Role, ...]
    # "json, jpg": the fields of the first of them.
    fields: str
    # The field that may serve instead, "" if there is none.
    instead: str
    # Of the first of them.
    shape: Shape
    count: int = 0
    key: str = ""
    offset: int = 0


def field_needs(context: Context) -> list[FieldNeeds]:
    """Return the needs of readers, without readers that take any sample."""
    needs = []
    for reader in context.readers:
        names = {role: accepted_fields(context, reader, role) for role in ROLES}
        if not any(names.values()):
            continue
        required = [role for role in ROLES if names[role]]
        absent = tuple(role for role in required if not _has_anywhere(context, reader, role))
        needs.append(FieldNeeds(reader, names, absent))
    return needs


def incomplete_samples(context: Context, needs: FieldNeeds) -> Iterator[IncompleteSamples]:
    """Yield the samples without a field that others have.

    They are grouped by shard, missing roles and the field to use instead.
    """
    roles = [role for role in ROLES if needs.names[role] and role not in needs.absent]
    for shard in context.evidence.shards:
        yield from _in_shard(context, needs.reader, shard, roles)


def may_be_cut(shard: ShardEvidence) -> bool:
    """Return whether the end of a shard may be missing: its last sample is then another matter."""
    if shard.stop.kind in ("silent", "error"):
        return True
    return shard.stop.kind == "eof" and bool(missing_at_end(shard))


def missing_at_end(shard: ShardEvidence) -> str:
    """Return the fields that most samples of a shard have and its last one does not."""
    last = shard.runs.last
    others = [
        item
        for item in shard.runs.shape_counts(with_tail=False)
        if not is_junk_run(item.key, item.shape)
    ]
    if last is None or not others:
        return ""
    usual = max(others, key=lambda item: item.count)
    if usual.count * 2 < sum(item.count for item in others):
        return ""
    return ", ".join(sorted(fields_in(usual.shape) - fields_in(last.shape)))


def _in_shard(
    context: Context, reader: Reader, shard: ShardEvidence, roles: Sequence[Role]
) -> list[IncompleteSamples]:
    groups: dict[tuple[tuple[Role, ...], str], IncompleteSamples] = {}
    # W001, W002 or W018 report a truncated sample.
    with_tail = not may_be_cut(shard)
    hidden = _merged_by_dots(reader, shard, with_tail=with_tail)
    for item in folded_shapes(context, reader, shard, with_tail=with_tail):
        if is_junk_run(item.key, item.shape):
            # macOS twins and dot-files in folders: W012.
            continue
        missing = tuple(role for role in roles if not has_role(context, reader, item.shape, role))
        if not missing or _is_hidden_by_dots(context, reader, shard, item.shape, missing):
            continue
        instead = ""
        if len(missing) == 1:
            instead = alternative(reader, shard, item.shape, missing[0])
        group = groups.get((missing, instead))
        if group is None:
            fields = ", ".join(sorted({display_name(part.suffix).lower() for part in item.shape}))
            group = IncompleteSamples(
                reader,
                shard,
                missing,
                fields,
                instead,
                item.shape,
                key=item.key,
                offset=item.offset,
            )
            groups[missing, instead] = group
        group.count += item.count + hidden[item.shape]
    return list(groups.values())


def _is_hidden_by_dots(
    context: Context, reader: Reader, shard: ShardEvidence, shape: Shape, roles: Sequence[Role]
) -> bool:
    """Return whether a sample would have all ``roles`` if its base name had no dots.

    W010 reports such names.
    """
    fixed = tuple(without_dots(shard, part) for part in shape)
    return fixed != shape and all(has_role(context, reader, fixed, role) for role in roles)


def _has_anywhere(context: Context, reader: Reader, role: Role) -> bool:
    """Return whether any sample would have the role if base names had no dots.

    W010 reports such names.
    """
    for shard in context.evidence.shards:
        for item in folded_shapes(context, reader, shard):
            fixed = tuple(without_dots(shard, part) for part in item.shape)
            if has_role(context, reader, fixed, role):
                return True
    return False


def _merged_by_dots(reader: Reader, shard: ShardEvidence, *, with_tail: bool) -> Counter[Shape]:
    """Return how many samples were merged into others by dots in base names.

    They are counted by the folded shapes of the others.
    """
    hidden: Counter[Shape] = Counter()
    if not shard.tally("name.dotted").count:
        return hidden
    for item in reader.runs(shard).shape_counts(with_tail=with_tail):
        count = item.count * count_merged_samples(item.shape, partial(is_wild, shard))
        hidden[fold_shape(shard, item.shape)] += count
    return hidden
