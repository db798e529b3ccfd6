"""Rules for faults that cost samples: the number depends on the reader, and determines the severity."""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from wdsflow.readers.base import Reader
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.evidence import OK, Part, ShardEvidence, Tally
from wdsflow.text.words import how_many

from ...finding import Finding, Severity
from .base import Context, TallyRule
from .shape_rule import RuleLoss, loss


class LossRule(TallyRule):
    """A rule whose fault makes some readers drop samples, and others not.

    A warning as long as each chosen reader loses at most ``max_loss`` of all samples by it, otherwise an error; also an
    error if a reader ends with an exception.
    """

    severity: ClassVar[Severity] = "warning"
    harmless: ClassVar[Severity] = "info"  # the severity if no chosen reader loses anything
    capped: ClassVar[bool] = True  # at most as many samples are lost as the tally counted
    statuses: ClassVar[tuple[str, ...]] = ()  # of a part with this fault
    kinds: ClassVar[tuple[str, ...]] = ()  # of fields that may have it; all if empty

    def fixed_part(self, part: Part) -> Part:
        """Return the part without this fault; the same object if it has no fault."""
        at_fault = part.status in self.statuses and (not self.kinds or kind_of(part.suffix) in self.kinds)
        return Part(part.suffix, OK) if at_fault else part

    def loss(self, context: Context, reader: Reader, shard: ShardEvidence, count: int) -> RuleLoss:
        """Return what the fault costs one reader in one shard."""
        found = loss(context, context.bound(reader), shard, self.fixed_part)
        return RuleLoss(min(found.samples, count), found.crash) if self.capped else found

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding for each shard in which something was counted."""
        rows: list[tuple[ShardEvidence, Tally, dict[str, RuleLoss]]] = []
        totals: dict[str, int] = {}
        for shard in context.evidence.shards:
            tally = self.seen(shard)
            if not tally.count:
                continue
            losses = {item.name: self.loss(context, item, shard, tally.count) for item in context.readers}
            for name, item in losses.items():
                totals[name] = totals.get(name, 0) + item.samples
            rows.append((shard, tally, losses))
        limit = context.max_loss * context.evidence.samples
        over = {name for name, count in totals.items() if count > limit}
        for shard, tally, losses in rows:
            yield self.lossy(context, shard, tally, losses, over)

    def lossy(
        self, context: Context, shard: ShardEvidence, tally: Tally, losses: dict[str, RuleLoss], over: set[str]
    ) -> Finding:
        """Return the finding for one shard, with the effect on each reader."""
        hurt = [name for name, item in losses.items() if item.samples or item.crash]
        worst = any(item.crash or name in over for name, item in losses.items() if name in hurt)
        quality = not hurt and self.harmless != "info"
        found, told = self.finding(context, shard, tally), consequence(context, losses)
        return replace(
            found,
            severity="error" if worst else self.severity if hurt else self.harmless,
            message=f"{found.message}; {told}" if told else found.message,
            readers=context.names() if quality else tuple(hurt),
            repair=found.repair if shard.samples else None,
        )


def consequence(context: Context, losses: dict[str, RuleLoss]) -> str:
    """Describe which readers drop how many samples, or end: "OpenCLIP 3.3.0 drops 3 samples"."""
    groups: dict[RuleLoss, list[str]] = {}
    for name, item in losses.items():
        if item.samples or item.crash:
            groups.setdefault(item, []).append(name)
    told = []
    for item, names in groups.items():
        if item.crash:
            told.append(context.ending(names))
        else:
            lost = how_many(item.samples, "sample")
            told += context.losing(names, lost, lost)
    return ", ".join(told)
