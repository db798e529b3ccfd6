"""The report for programs. ``schema/report.schema.json`` explains each name."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from wdsflow.scan.evidence import ShardEvidence

from ..finding import Finding
from ..forecast.forecast_text import as_dict
from ..tracing.stage_trace import StageTrace
from ..verdicts.pipeline_run import PipelineRun
from ..verdicts.verdict import Verdict
from .baseline import fingerprint

if TYPE_CHECKING:
    from .report import Report

# Version of the format; rises only if programs for the old one would break.
VERSION = 1


def render(report: "Report") -> str:
    """Return the report as JSON text, indented, ASCII only."""
    return json.dumps(to_dict(report), indent=2, allow_nan=False) + "\n"


def to_dict(report: "Report") -> dict[str, Any]:
    """Return the report as plain dicts and lists.

    The top level has exactly these seven names; everything else is in the verdict to which it
    belongs.
    """
    tree = {
        "version": VERSION,
        "ok": report.ok,
        "samples": report.samples,
        "shards": [_shard(shard) for shard in report.evidence.shards],
        "verdicts": [_verdict(verdict, report) for verdict in report.verdicts],
        "findings": [_finding(finding) for finding in report.findings],
        "versions": report.versions,
    }
    cleaned = make_encodable(tree)
    assert isinstance(cleaned, dict)
    return cleaned


def attributes_of(thing: object, names: str) -> dict[str, object]:
    """Return some attributes of an object, by their names, which are separated by spaces."""
    return {name: getattr(thing, name) for name in names.split()}


def _shard(shard: ShardEvidence) -> dict[str, object]:
    return {
        **attributes_of(shard, "url size members samples error error_detail"),
        "stop": None if shard.error else shard.stop._asdict(),
        **attributes_of(shard, "compression beyond"),
        "fields": {name: field.count for name, field in shard.fields.items()},
        "bytes_read": shard.bytes_read,
    }


def _verdict(verdict: Verdict, report: "Report") -> dict[str, Any]:
    """Return a verdict with its forecast and advice as plain values.

    Strings may still have lone surrogates.
    """
    forecast: dict[str, Any] | None = None
    for of_reader in report.forecasts:
        if of_reader.reader == verdict.reader:
            forecast = as_dict(of_reader)
            break
    return {
        **attributes_of(verdict, "reader outcome samples usable"),
        "reasons": [asdict(reason) for reason in verdict.reasons],
        **attributes_of(verdict, "title exact"),
        "least": _least(verdict),
        "note": verdict.note,
        "run": None if verdict.run is None else _run(verdict.run),
        "funnel": None if verdict.funnel is None else asdict(verdict.funnel),
        "lost": dict(verdict.lost),
        "level": report.level,
        "forecast": forecast,
        "advice": _advice(verdict, report),
    }


def _advice(verdict: Verdict, report: "Report") -> list[dict[str, object]]:
    """Return the advice for a reader.

    Advice for a reader that was not chosen is given to the first reader.
    """
    judged = [other.reader for other in report.verdicts]
    values = []
    for advice in report.advice:
        reader = advice.reader if advice.reader in judged else judged[0]
        if reader == verdict.reader:
            names = "regains usable exact text command language flags reader safe"
            values.append(attributes_of(advice, names))
    return values


def _least(verdict: Verdict) -> int:
    """Return how many samples are usable for certain."""
    if verdict.least is not None:
        return verdict.least
    return verdict.usable if verdict.exact or verdict.run is not None else 0


def _run(run: PipelineRun) -> dict[str, object]:
    values = attributes_of(run, "ended_by read delivered repeated shards of_shards")
    values["stages"] = [_stage(stage) for stage in run.stages]
    return values


def _stage(stage: StageTrace) -> dict[str, object]:
    return {
        **attributes_of(stage, "number title"),
        "in": stage.inputs,
        **attributes_of(stage, "out kind seconds"),
        "swallowed": stage.errors,
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        **attributes_of(finding, "code severity shard key offset count message readers"),
        "repair": None
        if finding.repair is None
        else attributes_of(finding.repair, "command safe note"),
        "rate": finding.rate,
        "lost": dict(finding.lost),
        "fingerprint": fingerprint(finding),
    }


def make_encodable(value: Any) -> Any:
    """Make every string encodable: spell out bytes that are not UTF-8 (lone surrogates here).

    Strict JSON parsers refuse lone surrogates, infinities and NaN (these become null); all other
    values stay as they are.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {make_encodable(key): make_encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [make_encodable(item) for item in value]
    return value
