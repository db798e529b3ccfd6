from collections.abc import Iterator
from itertools import pairwise

from wdsflow.scan.evidence import Run, ShardEvidence
from wdsflow.shards.tar.member_names import is_junk
from wdsflow.text.escape import escape

from ...finding import Finding, Severity
from ..kit.base import Context, Rule
from ..kit.rule_commands import repair
from ..kit.shape_rule import fields_in
from ..kit.unusual_names import is_wild


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
            if not fields_in(tail.shape) & fields_in(head.shape) and _continues(shard, tail, following, head):
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


def _continues(shard: ShardEvidence, tail: Run, following: ShardEvidence, head: Run) -> bool:
    """Return whether the two parts are of one sample, and not of several whose keys a dot cuts to the same (W010)."""
    before, after = _names(shard, tail), _names(following, head)
    return not before or not after or not before.isdisjoint(after)


def _names(shard: ShardEvidence, run: Run) -> set[str]:
    """Return what dots have cut off the keys of a run's samples; empty if it has a field that is no rest of a name."""
    suffixes = [part.suffix for part in run.shape]
    wild = all(is_wild(shard, suffix) for suffix in suffixes)
    return {suffix.rpartition(".")[0] for suffix in suffixes} if wild else set()
