"""From the result of validation to its certificate."""

import os
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from wdsflow import version
from wdsflow.readers.installed_versions import versions
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.certificate import Certificate, CertificateError, is_whole, plain_url, shared_folder, stored_folder
from wdsflow.shards.shard_identity import Identity

from ..finding import Finding
from ..report.as_json import clean, verdict_to_dict
from ..report.baseline import fingerprint
from ..report.report import Report
from ..verdicts.wording import no_verdict_text

_LISTED = 1000  # findings that were accepted, each in full


def certify(report: Report, file: str | Path, pipeline: str | None = None) -> Certificate:
    """Return the certificate of shards that were judged and hashed, to be written to ``file``.

    Args:
        report: of ``check`` with ``identify=True``.
        file: path of the certificate; if shards are below its folder, or the other way round, both can be moved together.
        pipeline: as it was given to ``check``.

    Raises:
        CertificateError: there are errors, or a shard has no hash; the message says which.
    """
    if why := refusal(report):
        raise CertificateError(why)
    folder, shards = identities(report.evidence.shards)
    accepted = [(finding, "baseline") for finding in report.accepted]
    accepted += [(finding, f"ignored: {reason}" if reason else "ignored") for finding, reason in report.ignored]
    verdicts = [verdict_to_dict(verdict, report) for verdict in report.verdicts]
    for verdict in verdicts:
        del verdict["advice"]
    facts = {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": versions() | {"wdsflow": version.__version__},
        "level": report.level,
        "pipeline": pipeline,
        "trains": all(verdict.outcome == "trains" for verdict in report.verdicts),
        "samples": report.samples,
        "bytes": sum(shard.size for shard in shards.values()),
        "verdicts": verdicts,
        "accepted_findings": len(accepted),
        "accepted": [_accepted(*each) for each in accepted[:_LISTED]],
    }
    return Certificate(stored_folder(folder, os.fspath(file)), shards, clean(facts), is_whole(folder, shards))


def refusal(report: Report) -> str:
    """Return why shards get no certificate; "" if they get one."""
    if why := no_verdict_text(report.evidence.shards) or _unidentified(report.evidence.shards):
        return why
    failing = [f"{verdict.title}: {verdict.outcome}" for verdict in report.verdicts if verdict.outcome != "trains"]
    if report.ok:
        return ""
    return "; ".join(failing) or f"errors were found: {', '.join(sorted({each.code for each in report.errors}))}"


def identities(shards: Sequence[ShardEvidence]) -> tuple[str, dict[str, Identity]]:
    """Return the folder that shards share, and what identifies each of them by its name in it.

    Raises CertificateError if one was not hashed, or if it is named twice and changed in between.
    """
    if why := _unidentified(shards):
        raise CertificateError(why)
    urls = [plain_url(shard.url) for shard in shards]
    folder = shared_folder(urls)
    found: dict[str, Identity] = {}
    for url, shard in zip(urls, shards, strict=True):
        assert shard.identity is not None
        name = url.removeprefix(folder)
        if found.setdefault(name, shard.identity) != shard.identity:
            raise CertificateError(
                f"{shard.url} is named twice, with other contents: it changed, or urls differ by query"
            )
    return folder, found


def _unidentified(shards: Sequence[ShardEvidence]) -> str:
    lacking = next((shard for shard in shards if shard.identity is None), None)
    return "" if lacking is None else f"{lacking.url} was not read: {lacking.error_detail or lacking.error}"


def _accepted(finding: Finding, by: str) -> dict[str, object]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "shard": None if finding.shard is None else os.path.basename(finding.shard),
        "message": finding.message,
        "fingerprint": fingerprint(finding),
        "by": by,
    }
