"""The report as one self-contained page with pictures.

It can also be an element for notebooks, without pictures.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from wdsflow.pages import render as page
from wdsflow.pages.histograms import Chart, chart
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many, location_text, plain_line, size

from ..forecast.forecast_result import Forecast
from ..forecast.forecast_text import sentences
from ..verdicts.verdict import Verdict
from ..verdicts.wording import no_verdict_text
from .defect_table import defect_table
from .finding_groups import SEVERITIES, FindingGroup, group_findings, next_steps, repairs_with_codes
from .finding_pictures import pictures
from .finding_text import ignored_lines
from .report_text import closing_line, notes
from .sample_statistics import SampleStatistics, read_statistics
from .verdict_text import consequence, summary_and_reasons

if TYPE_CHECKING:
    from .report import Report

# Findings of one rule, and shards, that a page lists.
SHOWN = 50
# Formats of images, the most frequent first, and repairs of one rule.
_MOST_FORMATS, _MOST_REPAIRS = 12, 2


def render(report: "Report") -> str:
    """Return the report as a whole page.

    It has verdicts, findings with samples, histograms, and a table of defects.
    """
    outcome = (
        ", ".join(f"{verdict.title}: {verdict.word}" for verdict in report.verdicts) or "shards"
    )
    statistics = SampleStatistics()
    if not report.nothing_read:
        statistics = read_statistics(report.evidence.shards)
    charts = list(statistics.charts())
    for number, forecast in enumerate(report.forecasts):
        worker_chart = _worker_chart(number, forecast)
        if worker_chart is not None:
            charts.append(worker_chart)
    return page(
        "validation.html",
        scripts=("uPlot.iife.min.js", "page.js"),
        data={"charts": {histogram.name: histogram.for_script() for histogram in charts}},
        title=f"wdsflow: {plain_line(outcome)}",
        **_parts(report),
        charts=charts,
        formats=_shares(statistics.formats),
        seen=_coverage(statistics),
        views=pictures(group_findings(report.findings)),
        heat=defect_table(report),
    )


def fragment(report: "Report") -> str:
    """Return the report as one element to embed in another page.

    It has its own styles, and no scripts.
    """
    return page("fragment.html", **_parts(report))


def _parts(report: "Report") -> dict[str, Any]:
    """Return the template variables of both forms."""
    shards = report.evidence.shards
    hidden = len(shards) - SHOWN
    return {
        "no_verdict": no_verdict_text(shards),
        "verdicts": [_verdict(verdict) for verdict in report.verdicts],
        "steps": next_steps(report),
        "groups": [_group(findings) for findings in group_findings(report.findings)],
        "ignored": list(ignored_lines(report)),
        "forecasts": [list(sentences(forecast)) for forecast in report.forecasts],
        "shards": [_shard(shard) for shard in shards[:SHOWN]],
        "all_shards": how_many(len(shards), "shard"),
        "more_shards": how_many(hidden, "more shard") if hidden > 0 else "",
        "notes": notes(report),
        "closing": closing_line(report),
    }


def _shard(shard: ShardEvidence) -> dict[str, object]:
    state = shard.error or ""
    if not state and shard.stop.kind != "end":
        state = f"{shard.stop.kind} at byte {shard.stop.offset:,}"
    return {
        "url": shard.url,
        "size": "" if shard.size is None else size(shard.size),
        "members": shard.members,
        "samples": shard.samples,
        "state": state,
    }


def _verdict(verdict: Verdict) -> dict[str, object]:
    summary, reasons = summary_and_reasons(verdict)
    meaning = consequence(verdict)
    if meaning:
        # As a sentence.
        meaning = f"{meaning[0].upper()}{meaning[1:]}."
    return {
        "title": verdict.title,
        "outcome": verdict.outcome,
        "word": verdict.word,
        "summary": summary,
        "meaning": meaning,
        "reasons": reasons,
        "funnel": [*_stage_bars(verdict), *_funnel_bars(verdict)],
    }


def _stage_bars(verdict: Verdict) -> Iterator[dict[str, object]]:
    """Yield what left each stage of the user's pipeline, as a share of the most."""
    if verdict.run is None:
        return
    stages = verdict.run.stages
    most = max((stage.out for stage in stages), default=1)
    for stage in stages:
        yield _bar(plain_line(f"left {stage.name}"), stage.out, stage.out / max(1, most))


def _funnel_bars(verdict: Verdict) -> Iterator[dict[str, object]]:
    """Yield what is left after each step of a reader, as a share of all samples."""
    funnel = verdict.funnel
    if funnel is None:
        return
    total = max(verdict.samples, funnel.samples, 1)
    yield _bar(
        f"samples, of {how_many(funnel.members, 'file')}", funnel.samples, funnel.samples / total
    )
    yield _bar(f"with image and {verdict.pairs_with}", funnel.complete, funnel.complete / total)
    yield _bar("decode", funnel.decoded, funnel.decoded / total)
    usable = "reach a batch" if verdict.reaches_batches else "usable"
    yield _bar(usable, funnel.usable, funnel.usable / total, "good")


def _bar(label: str, count: int, width: float, kind: str = "all") -> dict[str, object]:
    """Return a bar with a number; ``width``: 0 to 1; ``kind``: its style."""
    return {"label": label, "count": count, "left": 0.0, "width": width, "kind": kind}


def _group(findings: FindingGroup) -> dict[str, object]:
    """Return the findings of one rule."""
    messages = []
    for finding in findings.findings[:SHOWN]:
        location = location_text(
            finding.shard, finding.key, finding.offset, message=plain_line(finding.message)
        )
        messages.append({"message": finding.message, "place": location})
    return {
        "code": findings.code,
        "severity": findings.severity,
        "name": SEVERITIES[findings.severity],
        "title": findings.title or findings.findings[0].message,
        "findings": messages,
        "count": len(findings.findings),
        "more": max(len(findings.findings) - SHOWN, 0),
        "fixes": [repair for repair, _ in repairs_with_codes(findings.findings)[:_MOST_REPAIRS]],
    }


def _worker_chart(number: int, forecast: Forecast) -> Chart | None:
    """Return the chart of usable samples per worker, with the line of a full batch.

    Returns None for a single worker.
    """
    workers = len(forecast.shares)
    if workers <= 1:
        return None
    title = f"Usable samples per worker, epoch 0 ({workers:,} workers)"
    batch = forecast.batch_size
    return chart(
        f"workers{number}", title, forecast.shares, marks=[batch], marked=f"a batch of {batch:,}"
    )


def _shares(counts: Counter[str]) -> list[dict[str, object]]:
    """Return the most frequent formats as shares of all images."""
    total = counts.total()
    return [_bar(name, count, count / total) for name, count in counts.most_common(_MOST_FORMATS)]


def _coverage(statistics: SampleStatistics) -> str:
    """Return a sentence on the samples in the histograms."""
    shards = how_many(statistics.shards, "shard")
    if statistics.complete:
        return f"All {how_many(statistics.samples, 'sample')} of {shards}."
    if not statistics.samples:
        return ""
    return f"The first samples of {shards} on this machine, {statistics.samples:,} in all."
