"""Base classes of families of rules: on captions, images, interleaved samples, training commands."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.scan.evidence import BAD, BIG_BAD, EMPTY, Evidence, ShardEvidence
from wdsflow.scan.layouts import layout_of
from wdsflow.text.shell import command, escape
from wdsflow.text.words import how_many

from ...finding import Finding, Repair, Severity
from ...forecast.forecast import Forecast
from ...forecast.resources import working_batch_size, working_workers
from .base import Context, Rule, TallyRule, first_seen
from .shape_rule import LossRule


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


class ImageLossRule(LossRule):
    """A rule for images that a decoder refuses."""

    statuses: ClassVar[tuple[str, ...]] = (BAD, EMPTY, BIG_BAD)
    kinds = ("image",)
    drops_bad = True


class InterleavedRule(TallyRule):
    """A rule that compares the images of a sample with its json. It says nothing where samples are split.

    ``about_one``, ``about_several``: what is wrong, after the number of samples.
    """

    severity: ClassVar[Severity] = "warning"
    requires: ClassVar[tuple[str, ...]] = ("W001", "W002", "W006", "W010", "W012", "W022", "W029", "W030")
    about_one: ClassVar[str]
    about_several: ClassVar[str]

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        """Return the number of samples, what is wrong, and the first of them."""
        what = self.about_one if count == 1 else self.about_several
        return f"{how_many(count, 'sample')} {what}{first_seen(detail)}"


def reads_pairs(titles: str, readers: int) -> str:
    """Return what readers of image-text pairs do with samples of another layout; ``titles`` names so many readers."""
    return f"{titles} use{'s' if readers == 1 else ''} only one image and one caption of each"


def layout_hint(context: Context) -> str:
    """Return a remark on a set that no renamed field makes one of image-text pairs, "" for all others."""
    layout = layout_of(context.evidence.shards)
    if layout.is_image_text:
        return ""
    feed = "wdsflow-train" in context.names()
    return f"; the layout is {layout.text()}{'; wdsflow train feeds image-text pairs only' if feed else ', not image-text pairs'}"


class TrainingRule(Rule):
    """A rule about the training command and its effect on the shards."""

    @abstractmethod
    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterable[Finding]:
        """Yield findings about one forecast."""

    def check(self, context: Context) -> Iterator[Finding]:
        """Check every forecast; the same finding for two versions of OpenCLIP becomes one."""
        if context.arguments is None:
            return
        found: dict[tuple[str, Severity], Finding] = {}
        for forecast in context.forecasts:
            if not forecast.applies:
                continue
            for each in self.look(context, context.arguments, forecast):
                known = found.get((each.message, each.severity))
                names = (*(known.readers if known else ()), forecast.reader)
                found[each.message, each.severity] = Finding(
                    each.code, each.severity, each.message, count=each.count, readers=names, repair=each.repair
                )
        yield from found.values()

    def finding(
        self, message: str, *, severity: Severity | None = None, count: int = 1, fix: Repair | None = None
    ) -> Finding:
        """Return a finding that concerns no single shard."""
        return Finding(self.code, severity or self.severity, message, count=count, repair=fix)


def flag(*flags: str, note: str = "") -> Repair:
    """Return a flag of the training command, with its value, as a repair; ``note`` continues the sentence."""
    words = command(flags)
    return Repair(words, note=f"train with {words}{note}", flags=flags)


def clips(context: Context) -> tuple[str, ...]:
    """Return the names of the chosen OpenCLIP versions."""
    return tuple(name for name in context.names() if name.startswith("open-clip"))


def sharing(context: Context, arguments: Arguments, forecast: Forecast) -> Repair | None:
    """Return the setting with which every worker gets batches; None if the set is smaller than one batch.

    Fewer workers train the same model. A much smaller batch would train another one: then sharing all shards is better.
    """
    reader = next(each for each in context.readers if each.name == forecast.reader)
    workers = working_workers(context.evidence, reader, arguments)
    if workers is not None:
        return flag("--workers", str(workers), note=", the most that works")
    batch = working_batch_size(context.evidence, reader, arguments)
    if batch is not None:
        return flag("--batch-size", str(batch), note=", the largest that works")
    usable = next(each.usable for each in context.verdicts if each.reader == forecast.reader)
    if usable < arguments.batch_size:
        return None
    return flag("--dataset-resampled", note=": every worker then draws from all shards")
