from collections.abc import Iterator
from typing import NamedTuple

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import Run, ShardEvidence
from wdsflow.shards.tar.member_names import is_junk
from wdsflow.text.escape import escape

from ...finding import Finding, Severity
from ..kit.base import Context, Rule
from ..kit.rule_commands import leave_out


class Meeting(NamedTuple):
    """Two shards whose samples can run together, the last of one and the first of the other."""

    partner: ShardEvidence
    mispaired: bool  # an image gets another sample's caption; otherwise a sample is lost


class Mispaired(Rule):
    """Samples run together across shards.

    What: the last sample of one shard has the same key as the first sample of another shard, and is incomplete or lacks
    the field with which the other begins.

    Why it matters: webdataset up to 0.2.88, which OpenCLIP pins, does not mark the end of a shard. The open sample
    continues with the members of the next shard. If it is incomplete, the image of one sample is silently trained with
    the caption of another. Otherwise the other sample loses members and is dropped. Shards are shuffled again in each
    epoch, so any two can meet. Newer webdataset closes the sample at the end of the shard.

    In practice: a truncated shard in a set whose numbering starts again in each shard; LAION-400M's tails (the FIXME
    in OpenCLIP's group_by_keys; webdataset#327).

    Fix: ``wdsflow repair URL... -o repaired --drop-bad`` leaves the incomplete sample out; a fresh copy of the shard is
    better. Keys that include the number of the shard prevent this.
    """

    code = "W021"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        shards = context.evidence.shards
        heads: dict[str, list[int]] = {}
        for index, shard in enumerate(shards):
            if shard.runs.head is not None and not is_junk(shard.runs.head.key):
                heads.setdefault(shard.runs.head.key, []).append(index)
        rows = []
        for index, shard in enumerate(shards):
            tail = shard.runs.last
            others = [other for other in heads.get(tail.key, ()) if other != index] if tail else []
            met = {reader.name: _meeting(context, reader, index, others) for reader in context.readers}
            found = {name: meeting for name, meeting in met.items() if meeting is not None}
            if tail is not None and found:
                rows.append((shard, tail, found))
        many = len(rows) > context.max_loss * context.evidence.samples
        for shard, tail, found in rows:
            yield self.finding(context, shard, tail, found, many)

    def finding(
        self, context: Context, shard: ShardEvidence, tail: Run, found: dict[str, Meeting], many: bool
    ) -> Finding:
        """Return the finding for a shard whose last sample can run into another shard's first."""
        worst = next((meeting for meeting in found.values() if meeting.mispaired), next(iter(found.values())))
        partner = escape(worst.partner.url.rpartition("/")[2])
        severity: Severity = "error" if worst.mispaired or many else "warning"
        if worst.mispaired:
            fields = ", ".join(escape(part.suffix, 30) for part in tail.shape)
            what = f"its last sample has only {fields}, and {partner} begins with the same key"
            hurt = f"{context.titles(found)} can pair an image with the caption of another sample"
        else:
            what = f"its last sample and the first of {partner} have the same key"
            hurt = f"{context.titles(found)} can take members of one for the other, and lose a sample"
        return Finding(
            code=self.code,
            severity=severity,
            message=f"{what}: {hurt}",
            shard=shard.url,
            key=tail.key,
            offset=tail.offset,
            readers=tuple(found),
            repair=leave_out(context.targets()) if worst.mispaired else None,
        )


def _meeting(context: Context, reader: Reader, index: int, others: list[int]) -> Meeting | None:
    """Return the worst that can happen at the end of shard ``index`` with one of the shards that begin with its key."""
    shards = context.evidence.shards
    if not others or not reader.joins:
        return None
    tail = reader.runs(shards[index]).last
    lost = None
    for other in others:
        head = reader.runs(shards[other]).head
        if tail is None or head is None or head.key != tail.key:
            continue
        apart = context.usable(reader, tail.shape) + context.usable(reader, head.shape)
        joined = tail.shape + head.shape
        first = context.fates(reader, joined)[:1]
        halves = not apart and others == [index + 1]  # one split sample: W009
        whole = context.usable(reader, tail.shape) > 0
        if not whole and not halves and first and first[0].kind == "usable":
            return Meeting(shards[other], mispaired=True)
        if context.usable(reader, joined) < apart:
            lost = lost or Meeting(shards[other], mispaired=False)
    return lost
