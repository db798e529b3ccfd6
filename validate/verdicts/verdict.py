"""The verdict for one reader: trains, loses, stalls, crashes, refused or not judged, with the funnel of samples."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import BAD, UNKNOWN, UNSAFE, Evidence, Part, Shape
from wdsflow.scan.naming import is_dotted
from wdsflow.scan.runs import merged
from wdsflow.text.shell import escape

from .pipeline_run import PipelineRun
from .reader_pass import LossPlace, PassResult, run_pass
from .wording import crash_text, fields_of, loss_text

_JUNK = ("name.appledouble", "name.macosx", "name.hidden")
PIPELINE = "pipeline"  # the reader that the user wrote
_OPEN_END = "shards are read in parallel: how many samples come out before the exception is not known"

Outcome = Literal["trains", "loses", "stalls", "crashes", "refused", "not judged"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why samples do not reach a batch: one slug of ``Fate.reason``, with how many."""

    slug: str
    count: int  # samples; 0 if the reason is not about samples (such as a crash at the start)
    message: str  # "3,000 of 3,000 samples have no txt field (they have: json, jpg)"
    shard: str | None = None  # of the first one
    key: str | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many samples are left after each step of a reader's pipeline, in one pass over all shards."""

    members: int
    samples: int  # as the reader forms them
    complete: int  # have an image, and a caption or label, in the fields of the reader
    decoded: int
    usable: int  # reach a batch


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one reader on the shards."""

    reader: str
    title: str
    outcome: Outcome
    samples: int  # keys in the shards, plus samples that the reader splits off from a run of one key
    usable: int
    reasons: tuple[Reason, ...]
    funnel: Funnel | None  # None: of the user's own pipeline, of which ``run`` has the counts
    exact: bool  # False if the level could not know (names, headers)
    note: str = ""  # limits of the level, and assumptions
    lost: Mapping[str, int] = field(default_factory=dict)  # Fate.reason -> samples, as the reader forms them
    barren: tuple[str, ...] = ()  # readable shards from which no sample reaches a batch
    least: int | None = None  # the number of usable samples is a range from here on; None: it is ``usable``
    run: PipelineRun | None = None  # of the user's own pipeline
    pairs_with: str = "caption"  # required by the reader in addition to an image: "caption" or "label"
    reports_losses: bool = False  # the reader counts and reports what it leaves out

    @property
    def reaches_batches(self) -> bool:
        """Whether usable samples reach a batch: not if a fault that is not in the samples ends the run or hangs it."""
        return self.outcome != "refused" and not (self.usable and self.outcome in ("stalls", "crashes"))

    def refused(self, reason: str) -> "Verdict":
        """Return the verdict on a run that does not start, for a reason that concerns the whole run."""
        others = self.reasons if self.usable else ()  # if nothing is usable, the reason explains why
        return replace(self, outcome="refused", reasons=(Reason("refused", 0, reason), *others))


def judge(evidence: Evidence, reader: Reader, max_loss: float = 0.05) -> Verdict:
    """Return the verdict of a reader on one pass over the shards, in the reader's own order.

    Args:
        evidence: evidence of the scan.
        reader: the reader.
        max_loss: share of samples, 0 to 1, that may be lost before "trains" becomes "loses".
    """
    result = PassResult()
    starved = False  # some worker yields nothing: the loader waits for it, regardless of the others
    for worker in reader.order(evidence.shards):
        one = run_pass(reader, worker)
        starved = starved or not one.usable
        result.merge(one)
        if result.crash is not None:
            break
    if result.crash is not None and reader.in_parallel:
        result = _without_order(result, evidence, reader)
    open_end = result.crash is not None and reader.in_parallel and result.usable > 0
    lost: Counter[str] = Counter()
    for loss, count in result.lost.items():
        lost[loss.reason] += count
    samples, members = evidence.samples + result.split, sum(shard.members for shard in evidence.shards)
    pickled = _pickled(evidence, reader)
    unknown = "" if evidence.level == "names" else reader.unknown(evidence.shards)
    guessed = any(
        part.status == UNKNOWN for shard in evidence.shards for shape in shard.runs.shapes() for part in shape
    )
    exact = evidence.level == "full" and not (open_end or guessed or pickled or unknown)
    return Verdict(
        reader=reader.name,
        title=reader.title,
        outcome=_outcome(result, starved and reader.empty_stalls, samples, max_loss),
        samples=samples,
        usable=result.usable,
        reasons=tuple(_adding_up(result, evidence, samples, reader)),
        funnel=Funnel(members, result.formed, result.complete, result.decoded, result.usable),
        exact=exact,
        note="; ".join(filter(None, [_note(evidence, pickled, unknown), _OPEN_END * open_end])),
        least=0 if open_end else None,
        lost=dict(lost),
        barren=tuple(_barren(evidence, reader)),
        reports_losses=reader.reports_losses,
        pairs_with=reader.pairs_with,
    )


def _without_order(ended: PassResult, evidence: Evidence, reader: Reader) -> PassResult:
    """Return a pass that an exception ends, with the samples of all shards that can be read to their ends."""
    result = PassResult(crash=ended.crash, crash_place=ended.crash_place)
    for worker in reader.order(evidence.shards):
        for shard in worker:
            one = run_pass(reader, [shard])
            if one.crash is None:
                result.merge(one)
    return result


def _barren(evidence: Evidence, reader: Reader) -> Iterator[str]:
    bound = reader.bound_to(evidence.shards)
    for shard in evidence.shards:
        shapes = bound.runs(shard).shapes() if bound.opens(shard) else ()
        if shard.error is None and not any(fate.kind == "usable" for shape in shapes for fate in bound.fates(shape)):
            yield shard.url


def _outcome(result: PassResult, stalls: bool, samples: int, max_loss: float) -> Outcome:
    if result.crash is not None:
        return "crashes"
    if stalls:
        return "stalls"
    return "loses" if not result.usable or samples - result.usable > max_loss * samples else "trains"


def _pickled(evidence: Evidence, reader: Reader) -> bool:
    """Return whether the reader unpickles a field: its samples depend on contents that wdsflow never unpickles."""
    shapes = {shape for shard in evidence.shards for shape in shard.runs.shapes() if any(map(_is_unsafe, shape))}
    return any(reader.fates(shape) != reader.fates(_spoiled(shape)) for shape in shapes)


def _is_unsafe(part: Part) -> bool:
    return part.status == UNSAFE


def _spoiled(shape: Shape) -> Shape:
    return tuple(Part(part.suffix, BAD) if _is_unsafe(part) else part for part in shape)


def _note(evidence: Evidence, pickled: bool, unknown: str) -> str:
    if evidence.level == "names":
        return "names only: contents were not read; a caption or image that does not decode is counted as usable"
    if unknown:
        return f"the verdict is not exact: {escape(unknown)}"
    if evidence.level == "headers":
        return "images were judged by their first bytes, not decoded; --level full is exact"
    return "pickled fields are never opened here: they are taken as valid" if pickled else ""


def _counted(slug: str, count: int, samples: int, text: str, place: LossPlace | tuple[()] = ()) -> Reason:
    return Reason(slug, count, f"{count:,} of {max(samples, count):,} samples: {text}", *place)


def _reasons(result: PassResult, evidence: Evidence, samples: int, reader: Reader) -> Iterator[Reason]:
    if result.crash is not None and result.crash_place is not None:
        text = crash_text(result.crash.reason, result.crash.detail)
        yield Reason(result.crash.reason, 0, text, *result.crash_place)
    for loss, count in result.lost.most_common():
        text = loss_text(loss.reason, loss.detail, fields_of(result.shapes[loss]))
        yield _counted(loss.reason, count, samples, text, result.first[loss])
    unopened = [shard for shard in evidence.shards if shard.samples and not shard.error and not reader.opens(shard)]
    if unopened and result.crash is None:
        place = LossPlace(unopened[0].url, None, unopened[0].stop.offset)
        count = sum(shard.samples for shard in unopened)
        yield _counted("unopened", count, samples, f"they are in shards that {reader.unopened}", place)
    read = [reader.as_read(shard) for shard in evidence.shards]
    joined = [
        (more, shard.url)
        for shard, own in zip(evidence.shards, read, strict=True)
        if own is not shard and own.error is None and (more := shard.samples - own.unreached - own.runs.count) > 0
    ]
    if joined:
        text = f"{_title(reader)} does not find them as samples of their own"
        yield _counted("joined", sum(more for more, _ in joined), samples, text, LossPlace(joined[0][1], None, None))
    after_damage = [shard for shard in read if shard.unreached and (shard.error or reader.opens(shard))]
    if after_damage:
        count, place = (
            sum(shard.unreached for shard in after_damage),
            LossPlace(after_damage[0].url, None, after_damage[0].stop.offset),
        )
        yield _counted("unreached", count, samples, "they are after damage at which readers stop", place)


def _title(reader: Reader) -> str:
    return reader.title.split(" (")[0]


def _adding_up(result: PassResult, evidence: Evidence, samples: int, reader: Reader) -> list[Reason]:
    """Return the reasons with counts that add up to the samples that do not reach a batch.

    A reader may form one sample of many, if dots in their keys merge them, or several of one, and others of junk.
    """
    reasons = list(_reasons(result, evidence, samples, reader))
    if result.crash is not None:
        return reasons
    lost, counted = max(0, samples - result.usable), sum(reason.count for reason in reasons)
    if counted > lost:
        formed = [
            replace(each, count=0, message=f"{each.count:,} of the {counted:,}: {_text(each)}") for each in reasons
        ]
        junk = any(shard.tally(name).count for shard in evidence.shards for name in _JUNK)
        text = f"{_title(reader)} makes {counted:,} incomplete samples of their members{' and of junk files' if junk else ''}"
        place = LossPlace(reasons[0].shard, reasons[0].key, reasons[0].offset)
        return [_counted("pieces", lost, samples, text, place), *formed] if lost else formed
    for index, loss in enumerate(loss for loss, _ in result.lost.most_common()):
        hidden = sum(count * merged(shape, is_dotted) for shape, count in result.shapes[loss].items())
        if more := min(lost - counted, hidden):
            counted += more
            count, text = reasons[index].count + more, _text(reasons[index])
            reasons[index] = replace(reasons[index], count=count, message=f"{count:,} of {samples:,} samples: {text}")
    if counted < lost:
        reasons.append(
            _counted(
                "joined", lost - counted, samples, f"{_title(reader)} takes their members as parts of other samples"
            )
        )
    return sorted(reasons, key=lambda reason: -reason.count)


def _text(reason: Reason) -> str:
    return reason.message.partition(" samples: ")[2]
