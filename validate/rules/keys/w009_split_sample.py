from collections.abc import Iterator
from itertools import pairwise

from wdsflow.shards.tar.member_names import is_junk
from wdsflow.text.escape import escape

from ...finding import Finding, Severity
from ..kit.base import Context, Rule
from ..kit.rule_commands import repair
from ..kit.shape_rule import fields_in


class SplitSample(Rule):
    """A sample continues in the next shard.

    What: the last key of one shard is the first key of the next one, with different fields: one sample was split when
    the tars were written.

    Why it matters: readers shuffle shards and give them to different workers, so the two parts hardly ever meet.
    webdataset 1.x marks the end of each shard and makes two incomplete samples even in order. OpenCLIP silently drops
    each part for its missing field: one sample is lost between each two shards.

    In practice: tars split by size (``split``, ``tar --multi-volume``), writers that start a new shard after any
    member instead of after a sample.

    Fix: ``wdsflow repair URL... -o repaired`` over all shards at once joins the two parts. Or pack with webdataset's
    ShardWriter, which never splits a sample.
    """

    code = "W009"
    severity = "warning"

    def check(self, context: Context) -> Iterator[Finding]:
        found = []
        for shard, following in pairwise(context.evidence.shards):
            tail, head = shard.runs.last, following.runs.head
            if tail is None or head is None or tail.key != head.key or is_junk(tail.key):
                continue
            if not fields_in(tail.shape) & fields_in(head.shape):
                found.append((shard, following, tail))
        severity: Severity = "error" if len(found) > context.max_loss * context.evidence.samples else "warning"
        for shard, following, tail in found:
            yield Finding(
                code=self.code,
                severity=severity,
                message=f"its last sample continues in {escape(following.url.rpartition('/')[2])}: "
                "readers shuffle shards, so the two parts do not meet",
                shard=shard.url,
                key=tail.key,
                offset=tail.offset,
                readers=context.names(),
                repair=repair(context.targets(), note="over all shards at once, to join the two parts"),
            )
