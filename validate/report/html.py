"""The report as one self-contained page, with pictures; and as an element for notebooks, without."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from wdsflow.pages import render as page
from wdsflow.pages.histograms import Chart, chart
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import TALLIES
from wdsflow.text.words import how_many, place, plain, short, size

from ..forecast.forecast import Forecast
from ..forecast.forecast_text import sentences
from ..verdicts.verdict import PIPELINE, Verdict
from ..verdicts.wording import no_verdict_text
from .finding_groups import SEVERITIES, FindingGroup, fixes, group, steps
from .report_model import Results
from .report_text import closing_line, ignored_lines, means, notes, said
from .second_look import Look, look, pictures

SHOWN = 50  # findings of one rule, and shards, that a page lists
_HEAT_ROWS, _HEAT_COLUMNS = 40, 12


def render(report: Results) -> str:
    """Return the report as a whole page: verdicts, findings with samples, histograms, a heat map."""
    outcome = ", ".join(f"{verdict.title}: {verdict.outcome}" for verdict in report.verdicts) or "shards"
    seen = look(report.evidence.shards) if not report.nothing_read else Look()
    charts = [*seen.charts(), *_worker_charts(report.forecasts)]
    return page(
        "validation.html",
        scripts=("uPlot.iife.min.js", "page.js"),
        data={"charts": {each.name: each.for_script() for each in charts}},
        title=f"wdsflow: {plain(outcome)}",
        **_parts(report),
        charts=charts,
        formats=_shares(seen.formats),
        seen=_said_of(seen),
        views=pictures(group(report.findings)),
        heat=_heat(report),
    )


def fragment(report: Results) -> str:
    """Return the report as one element with its own styles and without scripts, to embed in another page."""
    return page("fragment.html", **_parts(report))


def _parts(report: Results) -> dict[str, Any]:
    """Return what both forms show."""
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


def _verdict(verdict: Verdict) -> dict[str, Any]:
    summary, reasons = said(verdict)
    meaning = means(verdict)
    return {
        "title": verdict.title,
        "outcome": verdict.outcome,
        "summary": summary,
        "meaning": f"{meaning[:1].upper()}{meaning[1:]}." if meaning else "",
        "reasons": reasons,
        "funnel": [*_funnel(verdict)],
    }


def _funnel(verdict: Verdict) -> Iterator[dict[str, Any]]:
    """Yield the steps of a reader's pipeline, each as a share of all samples."""
    funnel = verdict.funnel
    last = "reach a batch" if verdict.reaches_batches else "usable"
    whole = max(verdict.samples, funnel.samples, 1)
    for label, count, kind in (
        (f"samples, of {how_many(funnel.members, 'file')}", funnel.samples, "all"),
        *(
            ((f"with image and {verdict.pairs_with}", funnel.complete, "all"), ("decode", funnel.decoded, "all"))
            if verdict.reader != PIPELINE
            else ()
        ),
        (last, funnel.usable, "good"),
    ):
        yield {"label": label, "count": count, "left": 0.0, "width": count / whole, "kind": kind}


def _group(each: FindingGroup) -> dict[str, Any]:
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


def _worker_charts(forecasts: Sequence[Forecast]) -> Iterator[Chart]:
    """Yield the usable samples per worker of each forecast, with the line of a full batch."""
    for number, each in enumerate(forecasts):
        found = chart(
            f"workers{number}",
            f"Usable samples per worker, epoch 0 ({len(each.shares):,} workers)",
            each.shares,
            marks=[each.batch_size],
            marked=f"a batch of {each.batch_size:,}",
        )
        if found is not None and len(each.shares) > 1:
            yield found


def _shares(counts: Counter[str]) -> list[dict[str, Any]]:
    total = max(counts.total(), 1)
    return [
        {"label": name, "count": count, "left": 0.0, "width": count / total, "kind": "all"}
        for name, count in counts.most_common(12)
    ]


def _said_of(seen: Look) -> str:
    """Return which samples the histograms are of."""
    where = how_many(seen.shards, "shard")
    if seen.whole:
        return f"All {how_many(seen.samples, 'sample')} of {where}."
    return f"The first samples of {where} on this machine, {seen.samples:,} in all." if seen.samples else ""


def _heat(report: Results) -> dict[str, Any] | None:
    """Return a table of shards by defect: how often each occurs there, and how deep the colour is, 0 to 1."""
    counts = {shard.url: found for shard in report.evidence.shards if (found := _defects(shard))}
    for verdict in report.verdicts:
        for url in verdict.barren:
            counts.setdefault(url, Counter())[f"no sample usable: {verdict.title}"] += 1
    totals = sum(counts.values(), Counter[str]())
    if not totals:
        return None
    names = [name for name, _ in totals.most_common(_HEAT_COLUMNS)]
    deepest = math.log1p(max(max(each.values()) for each in counts.values()))
    sizes = {shard.url: shard.size or 0 for shard in report.evidence.shards}
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
    """Return how often each thing was seen in a shard that a rule may complain about, by what it means."""
    found = Counter({TALLIES[name]: tally.count for name, tally in shard.tallies.items() if tally.count})
    if shard.unreached:
        found["samples after damage at which readers stop"] = shard.unreached
    return found
