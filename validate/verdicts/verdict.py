"""The verdict for one reader: trains, loses, stalls, crashes, refused or not judged, with the funnel of samples."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import (
    BAD,
    SUSPECT,
    UNKNOWN,
    UNSAFE,
    Evidence,
    Runs,
    Shape,
    ShardEvidence,
)
from wdsflow.scan.naming import is_dotted
from wdsflow.scan.runs import is_junk_run, merged
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .pipeline_run import PipelineRun
from .reader_pass import LossPlace, PassResult, run_pass
from .wording import crash_text, fields_of, loss_text

_JUNK = ("name.appledouble", "name.macosx", "name.hidden")
# The reader that the user wrote.
PIPELINE = "pipeline"
_OPEN_END = (
    "shards are read in parallel: how many samples come out before the exception is not known"
)

_DOUBTFUL = "their contents are too large to be decoded here, or a pickle looks broken"

Outcome = Literal["trains", "loses", "stalls", "crashes", "refused", "not judged"]
_WORSE: tuple[Outcome, ...] = ("trains", "loses", "stalls", "crashes")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why samples do not reach a batch: one slug of ``Fate.reason``, with how many."""

    slug: str
    # Samples; 0 if the reason is not about samples (such as a crash at the start).
    count: int
    # "3,000 of 3,000 samples have no txt field (they have: json, jpg)".
    message: str
    # Of the first one.
    shard: str | None = None
    key: str | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many samples are left after each step of a reader's pipeline, in one pass over all shards."""

    members: int
    # As the reader forms them.
    samples: int
    # Have an image, and a caption or label, in the fields of the reader.
    complete: int
    decoded: int
    # Reach a batch.
    usable: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one reader on the shards."""

    reader: str
    title: str
    outcome: Outcome
    # Keys in the shards, plus samples that the reader splits off from a run of one key.
    samples: int
    usable: int
    reasons: tuple[Reason, ...]
    # None: of the user's own pipeline, of which ``run`` has the counts.
    funnel: Funnel | None
    # False if the level could not know (names, headers).
    exact: bool
    # Limits of the level, and assumptions.
    note: str = ""
    # Fate.reason -> samples, as the reader forms them.
    lost: Mapping[str, int] = field(default_factory=dict)
    # Readable shards from which no sample reaches a batch.
    barren: tuple[str, ...] = ()
    # The number of usable samples is a range from here on; None: not known, if not exact.
    least: int | None = None
    # Of the user's own pipeline.
    run: PipelineRun | None = None
    # Required by the reader in addition to an image: "caption" or "label".
    pairs_with: str = "caption"
    # The reader counts and reports what it leaves out.
    reports_losses: bool = False

    @property
    def word(self) -> str:
        """The outcome in a word: what was not wholly looked at may train."""
        return (
            "may train"
            if self.outcome == "trains" and not self.exact and self.run is None
            else self.outcome
        )

    @property
    def reaches_batches(self) -> bool:
        """Whether usable samples reach a batch: not if a fault that is not in the samples ends the run or hangs it."""
        return self.outcome != "refused" and not (
            self.usable and self.outcome in ("stalls", "crashes")
        )

    def refused(self, reason: str) -> "Verdict":
        """Return the verdict on a run that does not start, for a reason that concerns the whole run."""
        # If nothing is usable, the reason explains why.
        others = self.reasons if self.usable else ()
        return replace(self, outcome="refused", reasons=(Reason("refused", 0, reason), *others))


def judge(evidence: Evidence, reader: Reader, max_loss: float = 0.05) -> Verdict:
    """Return the verdict of a reader on one pass over the shards, in the reader's own order.

    If contents could not be decoded although something speaks against them, the number of usable
    samples is a range, and its lower end decides about the outcome.

    Args:
        evidence: evidence of the scan.
        reader: the reader.
        max_loss: share of samples, 0 to 1, that may be lost before "trains" becomes "loses".
    """
    result, starved = _passes(evidence.shards, reader)
    samples = evidence.samples + result.split + _uncounted(evidence.shards, reader)
    outcome = _outcome(result, starved, samples, max_loss)
    open_end = result.crash is not None and reader.in_parallel and result.usable > 0
    least = 0 if open_end else None
    doubtful = 0
    if _matters(evidence, reader, {SUSPECT}):
        worse, starved = _passes([_spoiled_shard(shard) for shard in evidence.shards], reader)
        doubtful = result.usable - worse.usable
        if evidence.level == "full" and not open_end:
            least = worse.usable
        outcome = max(outcome, _outcome(worse, starved, samples, max_loss), key=_WORSE.index)
    lost: Counter[str] = Counter()
    for loss, count in result.lost.items():
        lost[loss.reason] += count
    members = sum(shard.members for shard in evidence.shards)
    pickled = _matters(evidence, reader, {UNSAFE})
    unknown = "" if evidence.level == "names" else reader.unknown(evidence.shards)
    guessed = _matters(evidence, reader, {UNKNOWN, SUSPECT})
    exact = evidence.level == "full" and not (open_end or guessed or pickled or unknown)
    reasons = _adding_up(result, evidence, samples, reader)
    if doubtful:
        reasons.append(
            Reason("suspect", 0, f"{how_many(doubtful, 'more sample')} may be lost: {_DOUBTFUL}")
        )
    return Verdict(
        reader=reader.name,
        title=reader.title,
        outcome=outcome,
        samples=samples,
        usable=result.usable,
        reasons=tuple(reasons),
        funnel=Funnel(members, result.formed, result.complete, result.decoded, result.usable),
        exact=exact,
        note="; ".join(filter(None, [_note(evidence, pickled, unknown), _OPEN_END * open_end])),
        least=least,
        lost=dict(lost),
        barren=tuple(_barren(evidence, reader)),
        reports_losses=reader.reports_losses,
        pairs_with=reader.pairs_with,
    )


def _passes(shards: Sequence[ShardEvidence], reader: Reader) -> tuple[PassResult, bool]:
    """Return the result of all workers' passes, and whether one of them hangs."""
    result = PassResult()
    # Some worker yields nothing: the loader waits for it, regardless of the others.
    starved = False
    for worker in reader.order(shards):
        one = run_pass(reader, worker)
        starved = starved or not one.usable
        result.merge(one)
        if result.crash is not None:
            break
    if result.crash is not None and reader.in_parallel:
        result = _without_order(result, shards, reader)
    return result, starved and reader.empty_stalls


def _uncounted(shards: Sequence[ShardEvidence], reader: Reader) -> int:
    """Return how many samples a reader forms that the scan, which counts keys, does not count.

    Whole samples whose key has occurred before in their shard, and those in files that belong to no
    sample, such as those of a folder __MACOSX.
    """
    count = 0
    bound = reader.bound_to(shards)
    for shard in shards:
        if not bound.opens(shard):
            continue
        for shape, number in shard.again.items():
            count += number * any(fate.stage in ("decode", "batch") for fate in bound.fates(shape))
        for run in bound.runs(shard).counted():
            if is_junk_run(run.key, run.shape):
                count += run.count * sum(fate.kind == "usable" for fate in bound.fates(run.shape))
    return count


def _without_order(
    ended: PassResult, shards: Sequence[ShardEvidence], reader: Reader
) -> PassResult:
    """Return a pass that an exception ends, with the samples of all shards that can be read to their ends."""
    result = PassResult(crash=ended.crash, crash_place=ended.crash_place)
    for worker in reader.order(shards):
        for shard in worker:
            one = run_pass(reader, [shard])
            if one.crash is None:
                result.merge(one)
    return result


def _barren(evidence: Evidence, reader: Reader) -> Iterator[str]:
    bound = reader.bound_to(evidence.shards)
    for shard in evidence.shards:
        shapes = bound.runs(shard).shapes() if bound.opens(shard) else ()
        if shard.error is None and not any(
            fate.kind == "usable" for shape in shapes for fate in bound.fates(shape)
        ):
            yield shard.url


def _outcome(result: PassResult, stalls: bool, samples: int, max_loss: float) -> Outcome:
    if result.crash is not None:
        return "crashes"
    if stalls:
        return "stalls"
    return (
        "loses" if not result.usable or samples - result.usable > max_loss * samples else "trains"
    )


def _matters(evidence: Evidence, reader: Reader, statuses: Container[str]) -> bool:
    """Return whether contents of these statuses would be missed by the reader if they did not decode."""
    shapes = {shape for shard in evidence.shards for shape in reader.runs(shard).shapes()}
    return any(reader.fates(shape) != reader.fates(_spoiled(shape, statuses)) for shape in shapes)


def _spoiled(shape: Shape, statuses: Container[str]) -> Shape:
    return tuple(part._replace(status=BAD) if part.status in statuses else part for part in shape)


def _spoiled_shard(shard: ShardEvidence) -> ShardEvidence:
    """Return a shard as it is if no suspected contents decode."""

    def spoiled(runs: Runs | None) -> Runs | None:
        if runs is None or runs.head is None:
            return runs
        ends = [
            None if run is None else run._replace(shape=_spoiled(run.shape, {SUSPECT}))
            for run in (runs.head, runs.tail)
        ]
        return Runs(
            ends[0],
            tuple(replace(item, shape=_spoiled(item.shape, {SUSPECT})) for item in runs.inner),
            ends[1],
        )

    return replace(
        shard,
        runs=spoiled(shard.runs) or Runs(),
        visible_runs=spoiled(shard.visible_runs),
        all_runs=spoiled(shard.all_runs),
        by_arrow=None if shard.by_arrow is None else _spoiled_shard(shard.by_arrow),
    )


def _note(evidence: Evidence, pickled: bool, unknown: str) -> str:
    if evidence.level == "names":
        return "names only: contents were not read; a caption or image that does not decode is counted as usable"
    if unknown:
        return f"the verdict is not exact: {escape(unknown)}"
    if evidence.level == "headers":
        return "images were judged by their first and last bytes, and only suspicious ones decoded; --level full is exact"
    return "pickled fields are never opened here: they are taken as valid" if pickled else ""


def _counted(
    slug: str, count: int, samples: int, text: str, place: LossPlace | tuple[()] = ()
) -> Reason:
    return Reason(slug, count, f"{count:,} of {max(samples, count):,} samples: {text}", *place)


def _reasons(
    result: PassResult, evidence: Evidence, samples: int, reader: Reader
) -> Iterator[Reason]:
    if result.crash is not None and result.crash_place is not None:
        text = crash_text(result.crash.reason, result.crash.detail)
        yield Reason(result.crash.reason, 0, text, *result.crash_place)
    for loss, count in result.lost.most_common():
        text = loss_text(loss.reason, loss.detail, fields_of(result.shapes[loss]))
        yield _counted(loss.reason, count, samples, text, result.first[loss])
    unopened = [
        shard
        for shard in evidence.shards
        if shard.samples and not shard.error and not reader.opens(shard)
    ]
    if unopened and result.crash is None:
        place = LossPlace(unopened[0].url, None, unopened[0].stop.offset)
        count = sum(shard.samples for shard in unopened)
        yield _counted(
            "unopened", count, samples, f"they are in shards that {reader.unopened}", place
        )
    read = [reader.as_read(shard) for shard in evidence.shards]
    joined = [
        (more, shard.url)
        for shard, own in zip(evidence.shards, read, strict=True)
        if own is not shard
        and own.error is None
        and (more := shard.samples - own.unreached - own.runs.count) > 0
    ]
    if joined:
        text = f"{_title(reader)} does not find them as samples of their own"
        yield _counted(
            "joined",
            sum(more for more, _ in joined),
            samples,
            text,
            LossPlace(joined[0][1], None, None),
        )
    after_damage = [
        shard for shard in read if shard.unreached and (shard.error or reader.opens(shard))
    ]
    if after_damage:
        count, place = (
            sum(shard.unreached for shard in after_damage),
            LossPlace(after_damage[0].url, None, after_damage[0].stop.offset),
        )
        yield _counted(
            "unreached", count, samples, "they are after damage at which readers stop", place
        )


def _title(reader: Reader) -> str:
    return reader.title.split(" (")[0]


def _adding_up(
    result: PassResult, evidence: Evidence, samples: int, reader: Reader
) -> list[Reason]:
    """Return the reasons with counts that add up to the samples that do not reach a batch.

    A reader may form one sample of many, if dots in their keys merge them, or several of one, and
    others of junk.
    """
    reasons = list(_reasons(result, evidence, samples, reader))
    if result.crash is not None:
        return reasons
    lost, counted = max(0, samples - result.usable), sum(reason.count for reason in reasons)
    if counted > lost:
        formed = [
            replace(each, count=0, message=f"{each.count:,} of the {counted:,}: {_text(each)}")
            for each in reasons
        ]
        junk = any(shard.tally(name).count for shard in evidence.shards for name in _JUNK)
        text = f"{_title(reader)} makes {counted:,} incomplete samples of their members{' and of junk files' if junk else ''}"
        place = LossPlace(reasons[0].shard, reasons[0].key, reasons[0].offset)
        return [_counted("pieces", lost, samples, text, place), *formed] if lost else formed
    for index, loss in enumerate(loss for loss, _ in result.lost.most_common()):
        hidden = sum(
            count * merged(shape, is_dotted) for shape, count in result.shapes[loss].items()
        )
        if more := min(lost - counted, hidden):
            counted += more
            count, text = reasons[index].count + more, _text(reasons[index])
            reasons[index] = replace(
                reasons[index], count=count, message=f"{count:,} of {samples:,} samples: {text}"
            )
    if counted < lost:
        reasons.append(
            _counted(
                "joined",
                lost - counted,
                samples,
                f"{_title(reader)} takes their members as parts of other samples",
            )
        )
    return sorted(reasons, key=lambda reason: -reason.count)


def _text(reason: Reason) -> str:
    return reason.message.partition(" samples: ")[2]
