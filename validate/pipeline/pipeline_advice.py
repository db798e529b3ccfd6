"""Advice for the user's own pipeline: the stage to add, and where. Only what brought probed samples back is given."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from wdsflow.scan.evidence import Evidence
from wdsflow.scan.naming import caption_name
from wdsflow.text.shell import escape

from ..finding import Advice
from ..verdicts.verdict import PIPELINE
from ..verdicts.wording import fields_of
from .fates import Estimate, ProbedShape, Prober
from .probe_samples import shape_groups
from .reading import ReadingInOrder
from .rewire import FORM_SAMPLES

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


def advise_pipeline(reading: ReadingInOrder, now: Estimate, samples: int) -> tuple[Advice, ...]:
    """Return up to three changes that bring samples back, and the handler that would keep the run from ending.

    Where nothing can bring samples back since no sample has a field, return that.

    Args:
        reading: reads all shards, or a few samples, also with a change.
        now: what comes out without a change; numbers are given only where the shards were read whole.
        samples: in the shards.
    """
    prober, facts, shapes = reading.prober, reading.prober.facts, reading.prober.shapes
    title = prober.process.spec
    names = [stage.partition("(")[0] for stage in facts.stages]
    after = max((number for number, name in enumerate(names, 1) if name in FORM_SAMPLES), default=0)
    found: list[tuple[int, Advice]] = []
    for code in dict.fromkeys(_stages(shapes, prober.evidence)) if after else ():
        back = (shape for shape in shapes if not shape.usable and _comes_back(prober, shape, after, code))
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
    """Return how many samples come out of all shards with a change; None if that is not known for certain."""
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
    """Return what to change where ``to_tuple`` asks for a field that no sample of the set has."""
    if any(shape.usable for shape in shapes):  # a stage before makes the field of some samples
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
    """Yield code of stages that could give samples the field that they lack."""
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
    """Return the fields that a stage asked for.

    >>> _missing("ValueError: didn't find ['jpg', 'png'] in ['__key__', 'txt']"), _missing("KeyError: 'txt'")
    (['jpg', 'png'], ['txt'])
    """
    found = _MISSING.search(error)
    return [] if found is None else re.findall(r"'([^']*)'", next(filter(None, found.groups()), ""))


def _comes_back(prober: Prober, shape: ProbedShape, after: int, code: str) -> bool:
    """Return whether a sample of a shape comes out once the stages are there."""
    place = next(iter(shape.fates), None)
    path = prober.tars.tar(place) if place is not None and prober.patience > 0 else None
    return path is not None and prober.run([path] * prober.copies, change=(after, code)).out > 0


def _handlers(reading: ReadingInOrder, now: Estimate) -> Iterator[Advice]:
    """Yield the handler that a stage lacks at which the run ends, if samples come out with it."""
    prober, told = reading.prober, set()
    for shape in prober.shapes:
        for place, fate in shape.tried.items():
            number = re.match(r"stage (\d+) ", fate.run.stage)
            if fate.kind != "crash" or number is None or fate.run.stage in told or prober.patience <= 0:
                continue
            told.add(fate.run.stage)
            path = prober.tars.tar(place)
            change = int(number[1]), ""
            if path is None or prober.run([path], change=change).how != "ended":
                continue
            left = _usable(reading, now, change)
            if left if left is not None else any(each.usable for each in prober.shapes):
                title = prober.process.spec
                does = f"in {title}, let {fate.run.stage} drop what it cannot take, and warn: add this argument to its call"
                yield Advice(0, escape(does, 400), PIPELINE, title, command=_HANDLER, language="python")
