"""Samples whose members are not next to each other: another order would part them for good."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice, pairwise

from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.text.escape import escape

from .input_report import InputReport

Opened = Callable[[InputReport], Source]
"""Opens an input again."""


class MembersApart(ValueError):
    """Samples whose members are not next to each other."""


def refuse_apart(inputs: Sequence[InputReport], opened: Opened) -> None:
    """Raise MembersApart if members of one sample are not next to each other."""
    total = sum(found.apart.samples for found in inputs)
    where = next((found for found in inputs if found.apart.samples), None)
    key = _key_at(where, where.apart.place, opened) if where is not None else ""
    for one, other in pairwise(found for found in inputs if found.last[1]):  # those with samples
        if one.last[0] == other.first[0] and set(one.last[1]).isdisjoint(other.first[1]):
            total += 1
            where, key = (one, one.last[0]) if where is None else (where, key)
    if where is not None:
        which = "1 sample has" if total == 1 else f"{total:,} samples have"
        raise MembersApart(
            f"{which} members that are not next to each other, such as {escape(key)} in {where.url}:"
            " resharding would part them"
        )


def _key_at(found: InputReport, place: int, opened: Opened) -> str:
    with suppress(SourceError), opened(found) as source:
        keys = (sample.key for sample in Samples(source, contents=False))
        return next(islice(keys, place, None), "")
    return ""
