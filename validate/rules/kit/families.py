"""Families of rules: on lost samples, on images and captions, on the training command."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import ClassVar

from wdsflow.readers.base import Reader
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.scan.content.other import kind_of
from wdsflow.scan.evidence import OK, Part, ShardEvidence, Tally
from wdsflow.text.shell import command, escape
from wdsflow.text.words import how_many

from ...finding import Finding, Repair, Severity
from ...forecast.forecast import Forecast
from .base import Context, OneOrMany, Rule, TallyRule, first_seen
from .rule_loss import RuleLoss, loss

# The counted unit, by the first word of a tally, and the number of them in a shard.
_UNITS: dict[str, tuple[str, Callable[[ShardEvidence], int]]] = {
    "image": ("image", lambda shard: shard.images.count),
    "text": ("caption", lambda shard: shard.captions.count),
    "media": ("member", lambda shard: shard.members),
}


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
        return loss(context, context.bound(reader), shard, self.fixed_part)

    def check(self, context: Context) -> Iterator[Finding]:
        rows: list[tuple[ShardEvidence, Tally, dict[str, RuleLoss]]] = []
        totals: Counter[str] = Counter()
        for shard in context.evidence.shards:
            tally = self.seen(shard)
            if not tally.count:
                continue
            losses: dict[str, RuleLoss] = {}
            for reader in context.readers:
                losses[reader.name] = self.loss(context, reader, shard)
                totals[reader.name] += losses[reader.name].samples
            rows.append((shard, tally, losses))
        limit = context.max_loss * context.evidence.samples
        over = {name for name, count in totals.items() if count > limit}
        for shard, tally, losses in rows:
            yield self.with_losses(context, shard, tally, losses, over)

    def with_losses(
        self,
        context: Context,
        shard: ShardEvidence,
        tally: Tally,
        losses: dict[str, RuleLoss],
        over: set[str],
    ) -> Finding:
        """Return the finding for one shard; ``over``: the readers that lose more than ``max_loss``."""
        ending = [name for name, loss in losses.items() if loss.crash]
        affected = [name for name, loss in losses.items() if loss.samples or loss.crash]
        severity = self.harmless
        if affected:
            is_error = bool(ending) or not over.isdisjoint(affected)
            severity = "error" if is_error else self.severity
        finding = self.finding_in(context, shard, tally)
        message = finding.message
        if ending:
            message += f"; {context.ending(ending)}"
        readers = tuple(affected)
        if not affected and self.harmless != "info":
            readers = context.names()
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


class QualityRule(TallyRule):
    """A rule about images or captions that are used although they should not be.

    Reported once for all shards, with the first place. If the share is below ``common``, the
    severity is info. In ``says``, ``{n}`` is the count with its unit, and ``{where}`` in how many
    shards, with an example.
    """

    # The share from which it is a warning.
    common: ClassVar[float] = 0.01

    def check(self, context: Context) -> Iterator[Finding]:
        shards = context.evidence.shards
        seen = [(shard, self.seen(shard)) for shard in shards]
        affected = [(shard, tally) for shard, tally in seen if tally.count]
        if not affected:
            return
        shard, first = affected[0]
        unit, count_in = _UNITS[self.tallies[0].partition(".")[0]]
        count = sum(tally.count for _, tally in affected)
        total = max(sum(map(count_in, shards)), count)
        where = f" in {how_many(len(affected), 'shard')}" if len(shards) > 1 else ""
        if first.detail != "txt":
            # That would be no useful example: the message already says that these are captions.
            where += first_seen(escape(first.detail))
        number = f"{count:,} of {total:,} {unit}s" if total > count else how_many(count, unit)
        yield self.finding(
            self.says.format(n=number, verb=OneOrMany(count), where=where),
            context.names(),
            shard,
            first,
            count=count,
            of=total,
            severity=self.severity if count / total >= self.common else "info",
            fix=self.fix_of_set(context),
        )


class TrainingRule(Rule):
    """A rule about the training command and its effect on the shards."""

    @abstractmethod
    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterable[Finding]:
        """Yield findings about one forecast; ``check`` adds its reader."""

    def check(self, context: Context) -> Iterator[Finding]:
        """Check every forecast; the same finding for two versions of OpenCLIP becomes one."""
        if context.arguments is None:
            return
        findings: dict[tuple[str, Severity], Finding] = {}
        for forecast in context.forecasts:
            if not forecast.applies:
                continue
            for finding in self.look(context, context.arguments, forecast):
                same = findings.get((finding.message, finding.severity))
                readers = (*same.readers, forecast.reader) if same else (forecast.reader,)
                findings[finding.message, finding.severity] = replace(finding, readers=readers)
        yield from findings.values()


def flag(*flags: str, note: str = "") -> Repair:
    """Return a flag of the training command, with its value, as a repair; ``note`` continues the sentence."""
    words = command(flags)
    return Repair(words, note=f"train with {words}{note}", flags=flags)


def clips(context: Context) -> tuple[str, ...]:
    """Return the names of the chosen OpenCLIP versions."""
    return tuple(name for name in context.names() if name.startswith("open-clip"))
