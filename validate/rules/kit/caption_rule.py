"""Rules for contents that readers accept but that harm models: one finding for all shards together."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...finding import Finding, Severity
from .base import Context, TallyRule, first_seen


class QualityRule(TallyRule):
    """A rule about images or captions that are used although they should not be.

    Reported once for all shards, with the first place. If the share is below ``common``, the severity is info.
    """

    severity: ClassVar[Severity] = "warning"
    unit: ClassVar[Literal["image", "caption", "member"]] = "image"
    predicate: ClassVar[str]  # "are grey", after the count; predicate_one if the count is 1
    predicate_one: ClassVar[str]
    consequence: ClassVar[str]
    common: ClassVar[float] = 0.01  # the share from which it is a warning

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding for all shards."""
        found = [(shard, tally) for shard in context.evidence.shards if (tally := self.seen(shard)).count]
        if not found:
            return
        shard, first = found[0]
        count = sum(tally.count for _, tally in found)
        total = max(self.total(context.evidence), count)
        yield Finding(
            code=self.code,
            severity=self.severity_for(count / total),
            message=self.told(count, total, len(found), len(context.evidence.shards), escape(first.detail)),
            shard=shard.url,
            key=first.key,
            offset=first.offset,
            count=count,
            rate=count / total,
            readers=self.hurts(context, shard),
            repair=self.repair(*context.targets()),
        )

    def severity_for(self, share: float) -> Severity:
        """Return the severity for a share of all images or captions."""
        return self.severity if share >= self.common else "info"

    def told(self, count: int, total: int, shards: int, all_shards: int, detail: str) -> str:
        """Return the message for all shards together."""
        predicate = self.predicate_one if count == 1 else self.predicate
        where = f" in {how_many(shards, 'shard')}" if all_shards > 1 else ""
        of = f" of {total:,} {self.unit}s" if total > count else ""
        seen = "" if detail == "txt" else first_seen(detail)  # the finding already says that it is a caption
        noun = "" if of else f" {self.unit}" if count == 1 else f" {self.unit}s"
        return f"{count:,}{of}{noun} {predicate}{where}{seen}: {self.consequence}"

    def total(self, evidence: Evidence) -> int:
        """Return the total number of images, captions or members."""
        return sum(self.count_in(shard) for shard in evidence.shards)

    def count_in(self, shard: ShardEvidence) -> int:
        """Return the number of images, captions or members of a shard."""
        if self.unit == "member":
            return shard.members
        return shard.images.count if self.unit == "image" else shard.captions.count
