"""Rules about images and captions that are used although they should not be."""

from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from ...finding import Finding
from .base import Context, OneOrMany, TallyRule, example_text


class _Unit(NamedTuple):
    """What a tally counts, and how many of it a shard has."""

    name: str
    count_in: Callable[[ShardEvidence], int]


# By the first word of a tally.
_UNITS = {
    "image": _Unit("image", lambda shard: shard.images.count),
    "text": _Unit("caption", lambda shard: shard.captions.count),
    "media": _Unit("member", lambda shard: shard.members),
}


class QualityRule(TallyRule):
    """A rule about images or captions that are used although they should not be.

    Reported once for all shards, with the first location. If the share is below ``common``, the
    severity is info. In ``says``, ``{n}`` is the count with its unit, and ``{where}`` in how many
    shards, with an example.
    """

    # The share from which it is a warning.
    common: ClassVar[float] = 0.01

    def check(self, context: Context) -> Iterator[Finding]:
        shards = context.evidence.shards
        affected: list[tuple[ShardEvidence, Tally]] = []
        for shard in shards:
            tally = self.tally_in(shard)
            if tally.count:
                affected.append((shard, tally))
        if not affected:
            return
        first_shard, first = affected[0]
        count = sum(tally.count for _, tally in affected)

        # The count, out of all such units: "3 of 200 images".
        unit = _UNITS[self.tallies[0].partition(".")[0]]
        in_all = sum(unit.count_in(shard) for shard in shards)
        total = max(in_all, count)
        number = how_many(count, unit.name)
        if total > count:
            number = f"{count:,} of {total:,} {unit.name}s"

        where = f" in {how_many(len(affected), 'shard')}" if len(shards) > 1 else ""
        if first.detail != "txt":
            # That would be no useful example: the message already says that these are captions.
            where += example_text(escape(first.detail))
        yield self.finding(
            self.says.format(n=number, verb=OneOrMany(count), where=where),
            context.reader_names(),
            first_shard,
            first,
            count=count,
            of=total,
            severity=self.severity if count / total >= self.common else "info",
            fix=self.fix_of_set(context),
        )
