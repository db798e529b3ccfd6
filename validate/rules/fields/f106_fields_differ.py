from collections import Counter
from collections.abc import Iterator

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...finding import Finding
from ..kit.base import Context, Rule


class FieldsDiffer(Rule):
    """Shards have different fields.

    What: a field that most samples of a shard have (at least nine in ten) is missing in other shards, or the other way
    round. Each shard is compared with the majority of shards.

    Why it matters: readers that take their columns from the first samples (Hugging Face datasets, tables made from
    shards) give None for the rest or fail: "the key/value pairs do not match". Part of the set may come from another
    source or an older version than you think.

    In practice: datasets#6900, #7055; a set to which shards were added later; two exports in one folder.

    Fix: write all shards with the same fields: ``wdsflow inspect URL...`` lists them for each shard. If only the name
    differs: ``wdsflow repair SHARD -o repaired --rename OLD=NEW``.
    """

    code = "F106"
    severity = "warning"
    requires = ("F102", "F103", "F105", "W006", "W010", "W012", "W029", "W030", "W001", "W002")

    def check(self, context: Context) -> Iterator[Finding]:
        sets = [(shard, _usual_fields(shard)) for shard in context.evidence.shards if shard.samples]
        if len(sets) < 2:
            return
        ((usual, agreeing),) = Counter(fields for _, fields in sets).most_common(1)
        for shard, fields in sets:
            if fields != usual:
                yield Finding(
                    code=self.code,
                    severity=self.severity,
                    message=f"{_difference(usual - fields, fields - usual)} unlike {how_many(agreeing, 'other shard')}",
                    shard=shard.url,
                    count=shard.samples,
                    readers=context.names(),
                )


def _usual_fields(shard: ShardEvidence) -> frozenset[str]:
    return frozenset(
        name for name, item in shard.fields.items() if item.count >= 0.9 * shard.samples and not name.startswith("*")
    )


def _difference(lacking: frozenset[str], added: frozenset[str]) -> str:
    told = []
    if lacking:
        told.append(f"lacks {escape(', '.join(sorted(lacking)))}")
    if added:
        told.append(f"has {escape(', '.join(sorted(added)))}")
    return " and ".join(told)
