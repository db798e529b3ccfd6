"""Advice for the user's own pipeline: the stage to add, and where. Only what brought probed samples back is given."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from wdsflow.scan.evidence import Evidence
from wdsflow.scan.json_captions import caption_name
from wdsflow.text.escape import escape

from ..finding import Advice
from ..verdicts.verdict import PIPELINE
from .fates import ProbedShape, Prober
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


def advise_pipeline(
    prober: Prober,
    facts: PipelineFacts,
    shapes: Sequence[ProbedShape],
    evidence: Evidence,
    title: str,
    usable: int,
    most: int | None,
) -> tuple[Advice, ...]:
    """Return changes of the pipeline that let probed samples through, the most effective first.

    Args:
        prober: runs the pipeline, also with a change.
        facts: of the pipeline.
        shapes: what became of the probes.
        evidence: of the scan.
        title: of the pipeline.
        usable: samples that come out now.
        most: the same at most, before incomplete batches are left out: samples that come back may complete them. None if
            the run ends early.
    """
    names = [stage.partition("(")[0] for stage in facts.stages]
    after = max((number for number, name in enumerate(names, 1) if name in FORM_SAMPLES), default=0)
    found = []
    for code in dict.fromkeys(_stages(shapes, evidence)) if after else ():
        regains = sum(
            shape.group.count for shape in shapes if not shape.usable and _comes_back(prober, shape, after, code)
        )
        if regains:
            then = f", before stage {after + 1} {facts.stages[after]}" if after < len(facts.stages) else ""
            does = (
                f"in {title}, put these stages after stage {after} {facts.stages[after - 1]}{then}: .compose(*stages), or"
                " as items of the list of a wds.DataPipeline"
            )
            dropped = sum(shape.group.count for shape in shapes if shape.fates and not shape.usable)
            now = evidence.samples - dropped + regains
            if most is not None:
                now = min(now, most + regains)
            advice = Advice(regains, escape(does, 400), PIPELINE, title, now, usable, evidence.samples, exact=False)
            found.append(replace(advice, command=code, language="python"))
    found.sort(key=lambda each: -each.regains)
    return (*found[:3], *_handlers(prober, shapes, title))


def _stages(shapes: Sequence[ProbedShape], evidence: Evidence) -> Iterator[str]:
    """Yield code of stages that could give samples the field that they lack."""
    named = caption_name(evidence.shards)
    for shape in shapes:
        fields = [part.suffix for part in shape.group.shape]
        for error in {fate.run.error for fate in shape.fates.values() if fate.kind in ("dropped", "crash")}:
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


def _handlers(prober: Prober, shapes: Sequence[ProbedShape], title: str) -> Iterator[Advice]:
    """Yield the handler that a stage lacks at which the run ends."""
    told = set()
    for shape in shapes:
        for place, fate in shape.fates.items():
            number = re.match(r"stage (\d+) ", fate.run.stage)
            if fate.kind != "crash" or number is None or fate.run.stage in told or prober.patience <= 0:
                continue
            told.add(fate.run.stage)
            path = prober.tars.tar(place)
            if path is not None and prober.run([path], change=(int(number[1]), "")).how == "ended":
                does = f"in {title}, let {fate.run.stage} drop what it cannot take, and warn: add this argument to its call"
                yield Advice(0, escape(does, 400), PIPELINE, title, command=_HANDLER, language="python")
