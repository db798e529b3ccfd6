"""Rules on faults by which only some readers lose samples."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, NamedTuple

from wdsflow.readers.base import Reader
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.scan.shapes import Part
from wdsflow.scan.statuses import OK

from ...finding import Finding, Severity
from .base import Context, TallyRule
from .rule_loss import RuleLoss, loss


class _FaultyShard(NamedTuple):
    """A shard with the fault. ``losses``: by the names of readers."""

    shard: ShardEvidence
    tally: Tally
    losses: dict[str, RuleLoss]


class LossRule(TallyRule):
    """A rule whose fault makes only some readers drop samples.

    A warning if each chosen reader loses at most ``max_loss`` of all samples by it, otherwise an
    error; also an error if a reader raises.
    """

    counts_samples: ClassVar[bool] = True
    # The severity if no chosen reader loses anything.
    harmless: ClassVar[Severity] = "info"
    # Of a part with this fault.
    statuses: ClassVar[tuple[str, ...]] = ()
    # Of fields that may have this fault; all if empty.
    kinds: ClassVar[tuple[str, ...]] = ()

    def fixed_part(self, part: Part) -> Part:
        """Return the part without this fault; the same object if it has no fault."""
        is_of_kind = not self.kinds or kind_of(part.suffix) in self.kinds
        if is_of_kind and part.status in self.statuses:
            return Part(part.suffix, OK)
        return part

    def loss(self, context: Context, reader: Reader, shard: ShardEvidence) -> RuleLoss:
        """Return the loss of one reader in one shard if its samples had no other fault."""
        return loss(context, context.bound_reader(reader), shard, self.fixed_part)

    def check(self, context: Context) -> Iterator[Finding]:
        faulty: list[_FaultyShard] = []
        # Samples that each reader loses in all shards.
        totals: Counter[str] = Counter()
        for shard in context.evidence.shards:
            tally = self.tally_in(shard)
            if not tally.count:
                continue
            losses: dict[str, RuleLoss] = {}
            for reader in context.readers:
                loss_of_reader = self.loss(context, reader, shard)
                losses[reader.name] = loss_of_reader
                totals[reader.name] += loss_of_reader.samples
            faulty.append(_FaultyShard(shard, tally, losses))
        limit = context.max_loss * context.evidence.samples
        over = {name for name, count in totals.items() if count > limit}
        for shard, tally, losses in faulty:
            yield self.with_losses(context, shard, tally, losses, over)

    def with_losses(
        self,
        context: Context,
        shard: ShardEvidence,
        tally: Tally,
        losses: dict[str, RuleLoss],
        over: set[str],
    ) -> Finding:
        """Return the finding for one shard, with the losses of readers.

        ``over``: the readers that lose more than ``max_loss``.
        """
        ending = [name for name, item in losses.items() if item.crash]
        affected = [name for name, item in losses.items() if item.samples or item.crash]
        severity = self.harmless
        if affected:
            is_error = bool(ending) or not over.isdisjoint(affected)
            severity = "error" if is_error else self.severity
        finding = self.finding_in(context, shard, tally)
        message = finding.message
        if ending:
            message += f"; {context.exception_text(ending)}"
        readers = tuple(affected)
        if not affected and self.harmless != "info":
            # The fault is worth a warning although no sample is lost.
            readers = context.reader_names()
        return replace(
            finding,
            severity=severity,
            message=message,
            readers=readers,
            repair=finding.repair if shard.samples else None,
        )


class ImageLossRule(LossRule):
    """A rule for images that a decoder refuses."""

    kinds = ("image",)
