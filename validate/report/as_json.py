"""The report for programs. ``schema/report.schema.json`` says what each name means."""

import json
from collections.abc import Mapping
from typing import Any

import wdsflow

from ..evidence import Gap, ShardEvidence
from ..finding import Finding
from ..verdict import Reason, Verdict
from .baseline import fingerprint
from .model import AdviceLike, Report

VERSION = 1  # of the shape; rises only where a reader of the old one would break


def render(report: Report) -> str:
    """Return the report as JSON text, indented, ASCII only."""
    return json.dumps(report.to_dict(), indent=2, allow_nan=False) + "\n"


def to_dict(report: Report) -> dict[str, Any]:
    """Return the report as plain dicts and lists."""
    tree = {
        "version": VERSION,
        "ok": report.ok,
        "samples": report.samples,
        "shards": [_shard(shard) for shard in report.evidence.shards],
        "verdicts": [_verdict(verdict) for verdict in report.verdicts],
        "findings": [_finding(finding) for finding in report.findings],
        "forecast": [each.to_dict() for each in report.forecasts],
        "advice": [_advice(each) for each in report.advice],
        "ignored": [{"reason": reason, "finding": _finding(finding)} for finding, reason in report.ignored],
        "known": report.known,
        "gaps": [_gap(gap) for gap in report.evidence.gaps],
        "level": report.level,
        "notes": list(report.notes),
        "urls": list(report.urls),
        "seconds": round(report.seconds, 3),
        "wdsflow": wdsflow.__version__,
    }
    cleaned = clean(tree)
    assert isinstance(cleaned, dict)
    return cleaned


def _shard(shard: ShardEvidence) -> dict[str, Any]:
    stop = {"kind": shard.stop.kind, "offset": shard.stop.offset, "detail": shard.stop.detail}
    return {
        "url": shard.url,
        "size": shard.size,
        "members": shard.members,
        "samples": shard.samples,
        "error": shard.error,
        "error_detail": shard.error_detail,
        "stop": None if shard.error else stop,
        "compression": shard.compression,
        "beyond": shard.beyond,
        "fields": {name: each.count for name, each in shard.fields.items()},
        "bytes_read": shard.bytes_read,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "consumer": verdict.consumer,
        "outcome": verdict.outcome,
        "samples": verdict.samples,
        "usable": verdict.usable,
        "reasons": [_reason(reason) for reason in verdict.reasons],
        "title": verdict.title,
        "exact": verdict.exact,
        "note": verdict.note,
        "funnel": {
            "members": verdict.funnel.members,
            "samples": verdict.funnel.samples,
            "complete": verdict.funnel.complete,
            "decoded": verdict.funnel.decoded,
            "usable": verdict.funnel.usable,
        },
        "lost": dict(verdict.lost),
    }


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "slug": reason.slug,
        "count": reason.count,
        "message": reason.message,
        "shard": reason.shard,
        "key": reason.key,
        "offset": reason.offset,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    repair = finding.repair
    return {
        "code": finding.code,
        "severity": finding.severity,
        "shard": finding.shard,
        "key": finding.key,
        "offset": finding.offset,
        "count": finding.count,
        "message": finding.message,
        "consumers": list(finding.consumers),
        "repair": None if repair is None else {"command": repair.command, "safe": repair.safe, "note": repair.note},
        "rate": finding.rate,
        "fingerprint": fingerprint(finding),
    }


def _advice(advice: AdviceLike) -> dict[str, Any]:
    return {
        "regains": advice.regains,
        "text": advice.text,
        "command": advice.command,
        "consumer": advice.consumer,
        "safe": advice.safe,
    }


def _gap(gap: Gap) -> dict[str, Any]:
    return {"pattern": gap.pattern, "missing": list(gap.missing), "count": gap.count}


def clean(value: Any) -> Any:
    """Make every string encodable: bytes that are not UTF-8 (lone surrogates here) are spelled out.

    Strict readers of JSON refuse lone surrogates; everything else stays as it is in the data.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {clean(key): clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [clean(each) for each in value]
    return value
