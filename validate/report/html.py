"""The report as one self-contained page, with pictures; and as an element for notebooks, without."""

import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from wdsflow.images.image_header import read_header
from wdsflow.pages import render as page
from wdsflow.pages.histograms import Chart, chart
from wdsflow.pages.shown_samples import FoundSample, SampleView, image_field, samples_around, samples_of, view
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import TALLIES, caption_name
from wdsflow.shards.caption_field import LARGEST, caption_of
from wdsflow.shards.shard import Shard
from wdsflow.stages.scores.model.clip_tokens import clip_words
from wdsflow.text.words import how_many, place, plain, short, size

from ..forecast.forecast import Forecast, sentences
from ..verdicts.verdict import Verdict
from ..verdicts.wording import no_verdict_text
from .finding_groups import SEVERITIES, FindingGroup, fixes, group, steps
from .finding_text import ignored_lines
from .report_text import closing_line, notes
from .verdict_text import consequence, summary_and_reasons

if TYPE_CHECKING:
    from .report import Report

# Findings of one rule, and shards, that a page lists.
SHOWN = 50
_HEAT_ROWS, _HEAT_COLUMNS = 40, 12


# A second look at some samples, for pictures and histograms: the scan itself keeps no sample.

MOST_SAMPLES = 20_000
# Tokens of CLIP's text encoder, the two at the ends included.
CONTEXT = 77
_MOST_CAPTIONS = 5_000
_ORDINALS = {2: "2nd", 3: "3rd"}
_HEAD = 64 << 10
# Of a page, of a rule.
_PICTURES, _OF_ONE = 48, 4
# Codes of rules about fields and images.
_SAMPLE_RULES = ("F", "I")


@dataclass(slots=True)
class Look:
    """Statistics of the samples that were read."""

    samples: int = 0
    shards: int = 0
    # All samples of all shards were read.
    whole: bool = True
    widths: list[int] = field(default_factory=list)
    heights: list[int] = field(default_factory=list)
    formats: Counter[str] = field(default_factory=Counter)
    captions: list[str] = field(default_factory=list)

    def charts(self) -> Iterator[Chart]:
        """Yield the histograms that are not empty."""
        sides = list(zip(self.widths, self.heights, strict=True))
        step = -(-len(self.captions) // _MOST_CAPTIONS) or 1
        # None without OpenCLIP.
        clip = clip_words() if self.captions else None
        captions = self.captions[::step]
        lengths = [len(clip.tokens(each, sys.maxsize) if clip else each.split()) for each in captions]
        title = f"Caption length in {'tokens' if clip else 'words'}"
        title += f", every {_ORDINALS.get(step, f'{step}th')} caption" if step > 1 else ""
        found = (
            chart("width", "Width in pixels", self.widths),
            chart("height", "Height in pixels", self.heights),
            chart("megapixels", "Megapixels", [width * height / 1e6 for width, height in sides]),
            chart("aspect", "Width / height", [width / height for width, height in sides]),
            chart("caption", title, lengths, marks=[CONTEXT], marked=f"{CONTEXT}, where CLIP cuts")
            if clip
            else chart("caption", title, lengths),
        )
        yield from (each for each in found if each is not None)


def look(shards: Sequence[ShardEvidence], most: int = MOST_SAMPLES) -> Look:
    """Read the first samples of each shard on this machine, ``most`` in total."""
    found = Look()
    near = [shard for shard in shards if shard.error is None and shard.url.path is not None]
    named = caption_name(shards)
    for number, shard in enumerate(near):
        share = (most - found.samples) // (len(near) - number)
        before = found.samples
        for sample in islice(samples_of(shard.url), share):
            _note(sample, named[0] if named else None, found)
        found.shards += 1
        found.whole = found.whole and found.samples - before >= shard.samples
    found.whole = found.whole and len(near) == len(shards)
    return found


def _note(sample: FoundSample, name: str | None, found: Look) -> None:
    found.samples += 1
    image = image_field(sample.rows)
    header = read_header(sample.read(image, _HEAD)) if image is not None else None
    if header is not None and header.width and header.height:
        found.widths.append(header.width)
        found.heights.append(header.height)
        found.formats[header.format] += 1
    elif image is not None:
        found.formats["not an image"] += 1
    if "txt" in sample.rows:
        found.captions.append(sample.read("txt", 8_192).decode("utf-8", "replace"))
    elif name is not None and (caption := caption_of(sample.read("json", LARGEST), (name,))):
        found.captions.append(caption)


def pictures(groups: Sequence[FindingGroup]) -> dict[str, list[SampleView]]:
    """Return some samples in which rules about fields and images found something, by the code of the rule."""
    wanted: dict[str, dict[int, list[str]]] = {}
    left = _PICTURES
    for found_by in groups:
        placed = [each for each in found_by.findings if each.shard is not None and each.offset is not None]
        for finding in placed[: min(_OF_ONE, left)] if found_by.code.startswith(_SAMPLE_RULES) else ():
            assert finding.shard is not None
            assert finding.offset is not None
            if Shard.stored(finding.shard).path is not None:
                wanted.setdefault(finding.shard, {}).setdefault(finding.offset, []).append(found_by.code)
                left -= 1
    found: dict[str, list[SampleView]] = {}
    for url, offsets in wanted.items():
        for offset, sample in samples_around(Shard.stored(url), offsets):
            for code in offsets[offset]:
                found.setdefault(code, []).append(view(sample))
    return found


def render(report: "Report") -> str:
    """Return the report as a whole page: verdicts, findings with samples, histograms, a heat map."""
    outcome = ", ".join(f"{verdict.title}: {verdict.word}" for verdict in report.verdicts) or "shards"
    seen = look(report.evidence.shards) if not report.nothing_read else Look()
    workers = [_worker_chart(number, each) for number, each in enumerate(report.forecasts)]
    charts = [*seen.charts(), *(each for each in workers if each is not None)]
    return page(
        "validation.html",
        scripts=("uPlot.iife.min.js", "page.js"),
        data={"charts": {each.name: each.for_script() for each in charts}},
        title=f"wdsflow: {plain(outcome)}",
        **_parts(report),
        charts=charts,
        formats=_shares(seen.formats),
        seen=_coverage(seen),
        views=pictures(group(report.findings)),
        heat=_heat(report),
    )


def fragment(report: "Report") -> str:
    """Return the report as one element with its own styles and without scripts, to embed in another page."""
    return page("fragment.html", **_parts(report))


def _parts(report: "Report") -> dict[str, Any]:
    """Return the template variables of both forms."""
    shards = report.evidence.shards
    return {
        "no_verdict": no_verdict_text(shards),
        "verdicts": [_verdict(verdict) for verdict in report.verdicts],
        "steps": steps(report),
        "groups": [_group(each) for each in group(report.findings)],
        "ignored": [*ignored_lines(report)],
        "forecasts": [[*sentences(each)] for each in report.forecasts],
        "shards": [
            {
                "url": shard.url,
                "size": "" if shard.size is None else size(shard.size),
                "members": shard.members,
                "samples": shard.samples,
                "state": shard.error
                or ("" if shard.stop.kind == "end" else f"{shard.stop.kind} at byte {shard.stop.offset:,}"),
            }
            for shard in shards[:SHOWN]
        ],
        "all_shards": how_many(len(shards), "shard"),
        "more_shards": how_many(len(shards) - SHOWN, "more shard") if len(shards) > SHOWN else "",
        "notes": notes(report),
        "closing": closing_line(report),
    }


def _verdict(verdict: Verdict) -> dict[str, object]:
    summary, reasons = summary_and_reasons(verdict)
    meaning = consequence(verdict)
    return {
        "title": verdict.title,
        "outcome": verdict.outcome,
        "word": verdict.word,
        "summary": summary,
        "meaning": f"{meaning[:1].upper()}{meaning[1:]}." if meaning else "",
        "reasons": reasons,
        "funnel": [*_funnel(verdict)],
    }


def _funnel(verdict: Verdict) -> Iterator[dict[str, object]]:
    """Yield the steps of a reader's pipeline, each as a share of all samples."""
    if verdict.run is not None:
        most = max((stage.out for stage in verdict.run.stages), default=1)
        for stage in verdict.run.stages:
            yield _bar(plain(f"left {stage.name}"), stage.out, stage.out / max(1, most))
    if verdict.funnel is None:
        return
    funnel = verdict.funnel
    steps = [(f"samples, of {how_many(funnel.members, 'file')}", funnel.samples)]
    steps += [(f"with image and {verdict.pairs_with}", funnel.complete), ("decode", funnel.decoded)]
    whole = max(verdict.samples, funnel.samples, 1)
    yield from (_bar(label, count, count / whole) for label, count in steps)
    yield _bar("reach a batch" if verdict.reaches_batches else "usable", funnel.usable, funnel.usable / whole, "good")


def _bar(label: str, count: int, width: float, kind: str = "all") -> dict[str, object]:
    return {"label": label, "count": count, "left": 0.0, "width": width, "kind": kind}


def _group(each: FindingGroup) -> dict[str, object]:
    return {
        "code": each.code,
        "severity": each.severity,
        "name": SEVERITIES[each.severity],
        "title": each.title or each.findings[0].message,
        "findings": [
            {
                "message": finding.message,
                "place": place(finding.shard, finding.key, finding.offset, said=plain(finding.message)),
            }
            for finding in each.findings[:SHOWN]
        ],
        "count": len(each.findings),
        "more": max(len(each.findings) - SHOWN, 0),
        "fixes": [repair for repair, _ in fixes(each.findings)[:2]],
    }


def _worker_chart(number: int, forecast: Forecast) -> Chart | None:
    """Return the usable samples per worker of a forecast, with the line of a full batch; None for a single worker."""
    title = f"Usable samples per worker, epoch 0 ({len(forecast.shares):,} workers)"
    batch = forecast.batch_size
    found = chart(f"workers{number}", title, forecast.shares, marks=[batch], marked=f"a batch of {batch:,}")
    return found if len(forecast.shares) > 1 else None


def _shares(counts: Counter[str]) -> list[dict[str, object]]:
    return [_bar(name, count, count / counts.total()) for name, count in counts.most_common(12)]


def _coverage(seen: Look) -> str:
    """Return a sentence on the samples in the histograms."""
    where = how_many(seen.shards, "shard")
    if seen.whole:
        return f"All {how_many(seen.samples, 'sample')} of {where}."
    return f"The first samples of {where} on this machine, {seen.samples:,} in all." if seen.samples else ""


def _heat(report: "Report") -> dict[str, object] | None:
    """Return a table of shards by defect: how often each occurs there, and how deep the colour is, 0 to 1."""
    shards = report.evidence.shards
    counts: dict[str, Counter[str]] = {shard.url: found for shard in shards if (found := _defects(shard))}
    for verdict in report.verdicts:
        for url in verdict.barren:
            counts.setdefault(url, Counter())[f"no sample usable: {verdict.title}"] += 1
    totals = sum(counts.values(), Counter[str]())
    if not totals:
        return None
    names = [name for name, _ in totals.most_common(_HEAT_COLUMNS)]
    deepest = math.log1p(max(max(each.values()) for each in counts.values()))
    sizes: dict[str, int] = {shard.url: shard.size or 0 for shard in shards}
    largest = max(sizes.values(), default=0) or 1
    worst = sorted(counts, key=lambda url: (-counts[url].total(), url))
    rows = [
        {
            "name": short(url),
            "size": size(sizes.get(url, 0)),
            "share": sizes.get(url, 0) / largest,
            "cells": [(counts[url][name], math.log1p(counts[url][name]) / deepest) for name in names],
        }
        for url in worst[:_HEAT_ROWS]
    ]
    return {
        "names": names,
        "rows": rows,
        "more": how_many(len(worst) - _HEAT_ROWS, "more shard") if len(worst) > _HEAT_ROWS else "",
    }


def _defects(shard: ShardEvidence) -> Counter[str]:
    """Return how often each possible defect was seen in a shard, by its description."""
    found = Counter({TALLIES[name]: tally.count for name, tally in shard.tallies.items() if tally.count})
    if shard.unreached:
        found["samples after damage at which readers stop"] = shard.unreached
    return found
