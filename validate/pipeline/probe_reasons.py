"""Why samples do not come out of the user's pipeline, by stage and error; and the stages that fix probed ones."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wdsflow.scan.evidence import Evidence, Shape
from wdsflow.scan.naming import caption_name
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from ..finding import Advice
from ..verdicts.verdict import PIPELINE, Reason
from ..verdicts.wording import fields_of
from .fates import Estimate, ProbedFate, ProbedShape, Prober, joined_chains
from .probe_process import ProbeRun, StageLoss
from .probe_samples import SamplePlace, shape_groups
from .reading import ReadingInOrder
from .rewire import FORM_SAMPLES, PipelineFacts

_IMAGES = ("jpg", "png", "jpeg", "webp")
_CAPTIONS = ("txt", "text", "caption", "cap")
_MISSING = re.compile(r"didn't find \[(.*?)\] in|Cannot find \[(.*?)\] in|^KeyError: ('[^']*')")
_HANDLER = "handler=wds.warn_and_continue"
_JSON = """\
import json
import webdataset as wds

def with_caption(sample):
    if {field!r} in sample:
        return sample
    return {{**sample, {field!r}: json.loads(sample["json"])[{name!r}].strip().encode()}}

stages = [wds.map(with_caption, {handler})]"""
_RENAME = """\
import webdataset as wds

stages = [wds.rename({field}={names!r}, {handler})]"""
_DOES = {
    "dropped": "drops them",
    "crash": "raises an exception at them",
    "hang": "hangs at them",
    "ends-shard": "drops them, and leaves the rest of the shard out",
    "ends-stream": "drops them, and stops reading there: all later samples are lost",
}


def reasons_of(
    found: Estimate,
    shapes: Sequence[ProbedShape],
    damage: Mapping[str, ProbedFate],
    evidence: Evidence,
    samples: int,
    facts: PipelineFacts,
) -> list[Reason]:
    """Return the reasons: first the end of the run, then the most frequent."""
    if facts.chance:  # with random losses, a lost probe proves nothing about later stages
        shapes = [_without_ends(shape) for shape in shapes]
    tried = [each for shape in shapes for each in shape.tried.items()]
    stops = not found.whole and any(fate.kind == "ends-stream" for _, fate in tried)
    unless, urls = " unless reading stops before" if stops else "", {shard.url for shard in evidence.shards}
    first = [
        _end(run, slug, tried, urls, unless)
        for run, slug in ((found.crash, "crash"), (found.hang, "hang"))
        if run is not None
    ]
    does = _DOES if first else {**_DOES, "crash": "raises an exception at them where they are alone"}
    lost = sorted(_lost(shapes, samples, does, found), key=lambda reason: -reason.count)
    none_alone = found.whole and bool(found.likely) and not any(shape.usable for shape in shapes)
    if (found.likely >= samples or none_alone or found.perhaps_batches) and not first:
        lost = []  # samples lost alone come out with others: columns are inferred from all of them
    others = [
        Reason("ends-stream", 0, f"the pipeline stops reading at a damaged shard{_how(fate.run)}", url)
        for url, fate in damage.items()
        if fate.kind == "ends-stream"
    ]
    unreached = sum(shard.unreached for shard in evidence.shards)
    if unreached:
        shard = next(shard for shard in evidence.shards if shard.unreached)
        text = f"{unreached:,} of {samples:,} samples: they are after damage at which readers stop"
        others.append(Reason("unreached", unreached, text, shard.url, None, shard.stop.offset))
    for stage, count in found.rest:
        text = f"{count:,} of {samples:,} samples: {stage} leaves out the last, incomplete batch"
        several = " of each worker" if facts.workers > 1 else ""
        others.append(Reason("together", count, f"{text}{several}"))
    explained = sum(reason.count for reason in (*lost, *others))
    rest = 0 if found.perhaps_batches else samples - found.likely - explained
    if rest > 0 and not first and (found.whole or all(shape.fates for shape in shapes)):
        others.append(
            Reason(
                "together", rest, f"{rest:,} of {samples:,} samples: {_together(found, shapes, evidence, rest, facts)}"
            )
        )
    return [*first, *lost, *others]


def _without_ends(shape: ProbedShape) -> ProbedShape:
    def dropped(fates: Mapping[SamplePlace, ProbedFate]) -> dict[SamplePlace, ProbedFate]:
        ends = {place: fate._replace(kind="dropped") for place, fate in fates.items() if fate.kind.startswith("ends")}
        return {**fates, **ends}

    return replace(shape, fates=dropped(shape.fates), rare=dropped(shape.rare))


def _together(
    found: Estimate, shapes: Sequence[ProbedShape], evidence: Evidence, rest: int, facts: PipelineFacts
) -> str:
    """Return why samples that come out alone do not come out together."""
    if found.stopped:
        return f"the pipeline ends after {how_many(found.likely, 'sample')}: {found.stopped}"
    if found.picks:
        return "the function that makes the pipeline leaves their shards out"
    if 0 < rest <= sum(len(chain) - 1 for chain in joined_chains(evidence.shards)):
        return "they begin a shard, with the key with which the one before ends: the two are taken for one sample"
    tried = bool(found.losses) or all(len(shape.tried) == shape.group.count for shape in shapes)
    if found.whole and facts.gathers:
        if any(shape.usable for shape in shapes):
            return "samples like them come out, and these do not: its own code skips some, or ends early"
        return "no sample comes out alone, and some do with others: its own code skips some, or ends early"
    what = "they come out alone, and not with the others, such as a last, incomplete batch"
    tried |= any(not each.keeps_rest for each in facts.batches)
    return what if tried else "they do not come out either; no probed sample shows why"


def unknown_here(found: Estimate, fault: ProbeRun | None, samples: int) -> list[Reason]:
    """Widen the range if this machine lacks a requirement of the pipeline: samples are not at fault."""
    if fault is None:
        return []
    if found.crash is not None and found.crash.machine:
        found.crash = None
    found.open_below(fault.machine, samples)
    line = f" ({fault.line})" if fault.line else ""
    return [Reason("machine", 0, f"{fault.stage or 'the pipeline'} raises an exception{line}: {fault.cause}")]


def lost_by_slug(reasons: Iterable[Reason]) -> dict[str, int]:
    """Return how many samples are lost for each kind of reason."""
    lost: Counter[str] = Counter()
    for reason in reasons:
        lost[reason.slug] += reason.count
    return dict(+lost)


def _end(
    run: ProbeRun, slug: str, tried: Iterable[tuple[SamplePlace, ProbedFate]], urls: Container[str], unless: str
) -> Reason:
    what = "hangs" if slug == "hang" else "ends its process" if run.died else "raises an exception, which ends the run"
    text = f"{run.stage or 'the pipeline'} {what}{unless}{_how(run)}"
    if place := next((place for place, fate in tried if fate.run is run), None):
        return Reason(slug, 0, text, place.shard, place.key, place.offset)
    ours = run.shard not in urls  # a temporary tar of single samples
    return Reason(slug, 0, text, None if ours else run.shard, None if ours else run.key or None)


@dataclass(slots=True)
class _Loss:
    """Samples that one stage loses in one way."""

    place: SamplePlace  # of the first sample
    fate: ProbedFate
    fields: dict[Shape, int] = field(default_factory=dict)
    count: int = 0
    guessed: bool = False

    @property
    def error(self) -> str:
        """The type of the exception."""
        return self.fate.run.error.partition(":")[0].partition(" ")[0]


def _lost(shapes: Sequence[ProbedShape], samples: int, does: Mapping[str, str], found: Estimate) -> Iterator[Reason]:
    """Yield a reason for each stage and kind of error, with the samples of the shapes that it concerns."""
    losses: dict[tuple[str, str, str], _Loss] = {}
    for shape in shapes:
        for place, fate in shape.tried.items():
            if fate.kind == "usable":
                continue
            loss = losses.setdefault(fate.way, _Loss(place, fate))
            if shape.group.shape not in loss.fields:
                loss.fields[shape.group.shape] = share = _share(shape, fate.way)
                loss.count += share
                loss.guessed |= not shape.agrees and len(shape.tried) < shape.group.count
    left = _counted([loss for loss in losses.values() if loss.fate.kind == "dropped"], found.losses)
    if found.whole and found.crash is None and found.hang is None:  # estimates must not exceed the lost number
        guessed = sum(loss.count for loss in losses.values() if loss.guessed)
        known = sum(loss.count for loss in losses.values() if not loss.guessed)
        room = max(0, samples - found.likely - sum(left.values()) - known)
        for loss in losses.values():
            if loss.guessed and guessed > room:
                loss.count = max(1, loss.count * room // guessed)
    vary = "about " if found.whole and found.least < found.most else ""
    for loss in losses.values():
        (kind, run), place, count = loss.fate, loss.place, loss.count
        if count:
            what = "ends its process at them" if run.died and kind == "crash" else does[kind]
            text = f"{vary or 'about ' * loss.guessed}{count:,} of {max(samples, count):,} samples: "
            text += f"{run.stage or 'the pipeline'} {what}{_how(run)}; they have {fields_of(loss.fields)}"
            yield Reason(kind, count, text, place.shard, place.key, place.offset)
    for (stage, error), count in left.items():
        how = f" ({error})" if error else ""
        yield Reason("dropped", count, f"{vary}{count:,} of {samples:,} samples: {stage} drops them{how}")


def _counted(dropped: Sequence[_Loss], losses: Sequence[StageLoss]) -> dict[tuple[str, str], int]:
    """Set the losses of a run over all shards for the ways in which probes were lost; return the remainder."""
    left = {(stage, error): count for stage, error, count in losses}
    stages = {stage for stage, _ in left}
    of_stages = [loss for loss in dropped if loss.fate.run.stage in stages]
    exact = [loss for loss in of_stages if (loss.fate.run.stage, loss.error) in left]
    for loss in (*exact, *(loss for loss in of_stages if loss not in exact)):
        # Errors that a stage's own code catches are visible in the log at most.
        loss.count = left.pop((loss.fate.run.stage, loss.error if loss in exact else ""), 0)
        loss.guessed = False
    return left


def _share(shape: ProbedShape, way: tuple[str, str, str]) -> int:
    """Return how many samples of a shape are lost in one way, estimated from the probes."""
    hits, picked = (sum(fate.way == way for fate in fates.values()) for fates in (shape.fates, shape.rare))
    return picked + round((shape.group.count - len(shape.rare)) * hits / max(1, len(shape.fates)))


def _how(run: ProbeRun) -> str:
    parts = [part for part in (run.error, run.line) if part]
    return f" ({', '.join(parts)})" if parts else ""


def advise_pipeline(reading: ReadingInOrder, now: Estimate, samples: int) -> tuple[Advice, ...]:
    """Return up to three changes that keep more samples, and the handler that would prevent the end of the run.

    If that is impossible because no sample has a field, return that. Numbers are given only if the shards were read
    whole. ``now``: the estimate without a change.
    """
    prober, facts, shapes = reading.prober, reading.prober.facts, reading.prober.shapes
    title = prober.process.spec
    names = [stage.partition("(")[0] for stage in facts.stages]
    after = max((number for number, name in enumerate(names, 1) if name in FORM_SAMPLES), default=0)
    found: list[tuple[int, Advice]] = []
    for code in dict.fromkeys(_stages(shapes, prober.evidence)) if after else ():
        back = (shape for shape in shapes if not shape.usable and _comes_back(prober, shape, (after, code)))
        about = sum(shape.group.count for shape in back)
        usable = _usable(reading, now, (after, code)) if about else None
        if not about or (usable is not None and usable <= now.likely):
            continue
        then = f", before stage {after + 1} {facts.stages[after]}" if after < len(facts.stages) else ""
        does = (
            f"in {title}, put these stages after stage {after} {facts.stages[after - 1]}{then}: .compose(*stages), or"
            " as items of the list of a wds.DataPipeline"
        )
        advice = Advice(0, escape(does, 400), PIPELINE, title, command=code, language="python")
        if usable is not None:
            gain, total = usable - now.likely, max(samples, usable)
            advice = replace(advice, regains=gain, usable=usable, now=now.likely, samples=total)
        found.append((about, advice))
    found.sort(key=lambda each: -each[0])
    if not found and (absent := _absent(shapes, prober.evidence, title)) is not None:
        return (absent,)
    return (*(advice for _, advice in found[:3]), *_handlers(reading, now))


def _usable(reading: ReadingInOrder, now: Estimate, change: tuple[int, str]) -> int | None:
    """Return how many samples come out of all shards with a change; None if uncertain."""
    facts = reading.prober.facts
    exact = now.least == now.most or now.crash is not None
    if not now.whole or not exact or facts.chance or facts.collation_drops:
        return None
    run = reading.read(change=change)
    usable = run.out if run.how == "ended" else None
    for size, keeps_rest, workers, _ in facts.batches:
        if not keeps_rest and size > 1 and usable is not None:
            usable = usable // size * size if workers == 1 else None
    return usable


def _absent(shapes: Sequence[ProbedShape], evidence: Evidence, title: str) -> Advice | None:
    """Return a change if ``to_tuple`` needs a field that no sample of the set has."""
    if any(shape.usable for shape in shapes):  # an earlier stage adds the field to some samples
        return None
    groups = shape_groups(evidence.shards)
    here = {part.suffix.lower() for group in groups for part in group.shape}
    for shape in shapes:
        for fate in shape.tried.values():
            wanted = _missing(fate.run.error) if fate.kind in ("dropped", "crash") else []
            by_tuple = "to_tuple" in fate.run.stage and wanted
            if not by_tuple or not here or any("*" in name or name.lower() in here for name in wanted):
                continue
            have = fields_of({group.shape: group.count for group in groups})
            does = f"in {title}, {fate.run.stage}: no sample has {' or '.join(wanted)}; they have {have}"
            return Advice(0, escape(does, 400), PIPELINE, title)
    return None


def _stages(shapes: Sequence[ProbedShape], evidence: Evidence) -> Iterator[str]:
    """Yield code of stages that could add the missing field to samples."""
    named = caption_name(evidence.shards)
    for shape in shapes:
        fields = [part.suffix for part in shape.group.shape]
        for error in {fate.run.error for fate in shape.tried.values() if fate.kind in ("dropped", "crash")}:
            wanted = _missing(error)
            others = _CAPTIONS if set(wanted) & set(_CAPTIONS) else _IMAGES if set(wanted) & set(_IMAGES) else ()
            here = [name for name in others if name in fields and name not in wanted]
            if here and wanted[0].isidentifier():
                names = ";".join(dict.fromkeys([*wanted, *here]))
                yield _RENAME.format(field=wanted[0], names=names, handler=_HANDLER)
            elif others is _CAPTIONS and "json" in fields and named is not None and named[1].plain == named[1].strings:
                yield _JSON.format(field=wanted[0], name=named[0], handler=_HANDLER)


def _missing(error: str) -> list[str]:
    """Return the fields that a stage needed.

    >>> _missing("ValueError: didn't find ['jpg', 'png'] in ['__key__', 'txt']"), _missing("KeyError: 'txt'")
    (['jpg', 'png'], ['txt'])
    """
    found = _MISSING.search(error)
    return [] if found is None else re.findall(r"'([^']*)'", next(filter(None, found.groups()), ""))


def _comes_back(prober: Prober, shape: ProbedShape, change: tuple[int, str]) -> bool:
    """Return whether a sample of a shape comes out with a change."""
    place = next(iter(shape.fates), None)
    path = prober.tars.tar(place) if place is not None and prober.patience > 0 else None
    return path is not None and prober.run([path] * prober.copies, change=change).out > 0


def _handlers(reading: ReadingInOrder, now: Estimate) -> Iterator[Advice]:
    """Yield a handler for each stage that ends the run, if samples come out with it."""
    prober, seen = reading.prober, set()
    for shape in prober.shapes:
        for place, fate in shape.tried.items():
            number = re.match(r"stage (\d+) ", fate.run.stage)
            if fate.kind != "crash" or number is None or fate.run.stage in seen or prober.patience <= 0:
                continue
            seen.add(fate.run.stage)
            path = prober.tars.tar(place)
            change = int(number[1]), ""
            if path is None or prober.run([path], change=change).how != "ended":
                continue
            left = _usable(reading, now, change)
            if left if left is not None else any(each.usable for each in prober.shapes):
                title = prober.process.spec
                does = f"in {title}, let {fate.run.stage} drop what it cannot take, and warn: add this argument to its call"
                yield Advice(0, escape(does, 400), PIPELINE, title, command=_HANDLER, language="python")
