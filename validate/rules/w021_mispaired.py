from collections.abc import Iterator

from wdsflow.shards.escape import escape

from ..consumers.base import Consumer
from ..evidence import Run, ShardEvidence
from ..finding import Finding
from ..naming import is_junk
from .base import Context, Rule
from .commands import repair
from .shapes import last_run, runs_for


class Mispaired(Rule):
    """An image can get the caption of another sample, across shards.

    What: the last sample of a shard is incomplete, and another shard begins with the same key.

    Why it hurts: webdataset up to 0.2.88, which OpenCLIP pins, does not mark the end of a shard. The open half sample
    is completed with the members of whichever shard comes next: the image of one sample is trained with the caption
    of another, without a word. Shards are shuffled anew in each epoch, so that any two can meet. Newer webdataset
    closes the sample at the end of the shard.

    In the wild: a truncated shard in a set whose numbering starts again in each shard; LAION-400M's tails (the FIXME
    in OpenCLIP's group_by_keys; webdataset#327).

    Cure: ``wdsflow repair URL... -o repaired --drop-bad`` leaves the half sample out; a fresh copy of the shard is
    better. Keys that hold the number of the shard rule it out for good.
    """

    code = "W021"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        heads: dict[str, list[int]] = {}
        shards = context.evidence.shards
        for index, shard in enumerate(shards):
            if shard.runs.head is not None and not is_junk(shard.runs.head.key):
                heads.setdefault(shard.runs.head.key, []).append(index)
        for index, shard in enumerate(shards):
            tail = last_run(shard.runs)
            meeting = [other for other in heads.get(tail.key, ()) if other != index] if tail else []
            if tail is None or not meeting:
                continue
            hurt = []
            partner = None
            for consumer in context.consumers:
                found = _partner(context, consumer, index, meeting)
                if found is not None:
                    hurt.append(consumer.name)
                    partner = partner or found
            if partner is not None:
                yield self.finding(context, shard, tail, partner, hurt)

    def finding(
        self, context: Context, shard: ShardEvidence, tail: Run, partner: ShardEvidence, hurt: list[str]
    ) -> Finding:
        """Return the finding for a shard whose last sample can be joined with another shard's first."""
        fields = ", ".join(escape(part.suffix, 30) for part in tail.shape)
        return Finding(
            code=self.code,
            severity=self.severity,
            message=f"its last sample has only {fields}, and {escape(partner.url.rpartition('/')[2])} begins with the "
            f"same key: {context.titles(hurt)} can pair an image with the caption of another sample",
            shard=shard.url,
            key=tail.key,
            offset=tail.offset,
            consumers=tuple(hurt),
            repair=repair(context.targets(), "--drop-bad", safe=False, note="leaves the half sample out"),
        )


def _partner(context: Context, consumer: Consumer, index: int, meeting: list[int]) -> ShardEvidence | None:
    """Return a shard whose first members would complete the half sample at the end of shard ``index``."""
    shards = context.evidence.shards
    if not consumer.joins(shards[index].stop):
        return None
    tail = last_run(runs_for(consumer, shards[index]))
    if tail is None or context.usable(consumer, tail.shape):
        return None
    for other in meeting:
        head = runs_for(consumer, shards[other]).head
        if head is None or head.key != tail.key:
            continue
        first = context.fates(consumer, tail.shape + head.shape)[:1]
        halves = not context.usable(consumer, head.shape) and meeting == [index + 1]  # one sample, cut in two: W009
        if first and first[0].kind == "usable" and not halves:
            return shards[other]
    return None
