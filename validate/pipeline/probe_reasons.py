"""Why samples do not come out of the user's pipeline: one reason for each stage and error."""

from collections.abc import Container, Iterator, Mapping, Sequence

from wdsflow.scan.evidence import Evidence, Shape

from ..verdicts.verdict import Reason
from ..verdicts.wording import fields_of
from .fates import ProbedFate, ProbedShape
from .probe_child import ProbeRun
from .probe_samples import SamplePlace

_DOES = {
    "dropped": "drops them",
    "crash": "raises an exception at them",
    "hang": "hangs at them",
    "ends-shard": "drops them, and leaves the rest of the shard out",
    "ends-stream": "drops them, and stops reading there: all later samples are lost",
}


def reasons_of(
    crash: ProbeRun | None,
    hang: ProbeRun | None,
    shapes: Sequence[ProbedShape],
    damage: Mapping[str, ProbedFate],
    evidence: Evidence,
    samples: int,
    usable: int,
) -> list[Reason]:
    """Return the reasons, what ends the run first, then the most frequent."""
    first = [
        _end(run, slug, shapes, {shard.url for shard in evidence.shards})
        for run, slug in ((crash, "crash"), (hang, "hang"))
        if run is not None
    ]
    does = _DOES if crash or hang else {**_DOES, "crash": "raises an exception at them where they are alone"}
    lost = sorted(_lost(shapes, samples, does), key=lambda reason: -reason.count)
    if usable >= samples and crash is None and hang is None:
        lost = []  # what is lost alone comes out with others: columns come from all of them
    others = [damage_reason(url, fate) for url, fate in damage.items() if fate.kind == "ends-stream"]
    unreached = sum(shard.unreached for shard in evidence.shards)
    if unreached:
        shard = next(shard for shard in evidence.shards if shard.unreached)
        text = f"{unreached:,} of {samples:,} samples: they are after damage at which readers stop"
        others.append(Reason("unreached", unreached, text, shard.url, None, shard.stop.offset))
    told = sum(reason.count for reason in (*lost, *others))
    rest = samples - usable - told
    if rest > 0 and crash is None and hang is None:
        text = f"{rest:,} of {samples:,} samples: they come out alone, and not with the others"
        others.append(Reason("together", rest, f"{text}, such as a last, incomplete batch"))
    return [*first, *lost, *others]


def damage_reason(url: str, fate: ProbedFate) -> Reason:
    """Return the reason of a damaged shard at which reading stops."""
    return Reason("ends-stream", 0, f"the pipeline stops reading at a damaged shard{_how(fate.run)}", url)


def _end(run: ProbeRun, slug: str, shapes: Sequence[ProbedShape], urls: Container[str]) -> Reason:
    what = "raises an exception, which ends the run" if slug == "crash" else "hangs"
    place = next((place for place, fate in _fates(shapes) if fate.run is run), None)
    ours = place is None and run.shard not in urls  # a tar of single samples, which is gone soon
    shard = place.shard if place else None if ours else run.shard
    key = place.key if place else None if ours else run.key or None
    text = f"{run.stage or 'the pipeline'} {what}{_how(run)}"
    return Reason(slug, 0, text, shard, key, place.offset if place else None)


def _fates(shapes: Sequence[ProbedShape]) -> Iterator[tuple[SamplePlace, ProbedFate]]:
    for shape in shapes:
        yield from shape.fates.items()


def _lost(shapes: Sequence[ProbedShape], samples: int, does: Mapping[str, str]) -> Iterator[Reason]:
    """Yield a reason for each stage and kind of error, with the samples of the shapes that it concerns."""
    counts: dict[tuple[str, str, str], int] = {}
    places: dict[tuple[str, str, str], tuple[SamplePlace, ProbeRun]] = {}
    fields: dict[tuple[str, str, str], dict[Shape, int]] = {}
    for shape in shapes:
        for place, fate in shape.fates.items():
            if fate.kind == "usable":
                continue
            name: tuple[str, str, str] = (fate.kind, fate.run.stage, fate.run.error.partition(":")[0])
            known = fields.setdefault(name, {})
            if shape.group.shape not in known:
                known[shape.group.shape] = share = _share(shape, name)
                counts[name] = counts.get(name, 0) + share
            places.setdefault(name, (place, fate.run))
    for name, count in counts.items():
        place, run = places[name]
        stage = run.stage or "the pipeline"
        text = f"{count:,} of {max(samples, count):,} samples: {stage} {does[name[0]]}{_how(run)}"
        text += f"; they have {fields_of(fields[name])}"
        yield Reason(name[0], count, text, place.shard, place.key, place.offset)


def _share(shape: ProbedShape, name: tuple[str, str, str]) -> int:
    """Return how many samples of a shape meet a fate, as far as the probes tell."""
    hits = sum((fate.kind, fate.run.stage, fate.run.error.partition(":")[0]) == name for fate in shape.fates.values())
    return round(shape.group.count * hits / len(shape.fates))


def _how(run: ProbeRun) -> str:
    parts = [part for part in (run.error, run.line) if part]
    return f" ({', '.join(parts)})" if parts else ""
