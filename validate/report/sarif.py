"""The report as SARIF 2.1.0, the format of findings for code hosts and editors."""

import json
from urllib.parse import quote, urlsplit

from wdsflow import version
from wdsflow.text.words import command_lines, plain_line, relative

from ..catalog.manual_pages import explain
from ..finding import Finding
from .as_json import attributes_of
from .baseline import fingerprint
from .finding_groups import SEVERITIES, rule_titles
from .report import Report

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# Characters that a path inside a URI may hold as they are.
_SAFE = "/:@!$&'()*+,;=~-._"


def render(report: Report) -> str:
    """Return the report as SARIF text."""
    return json.dumps(to_sarif(report), indent=2) + "\n"


def to_sarif(report: Report) -> dict[str, object]:
    """Return the report as a SARIF log: one run, one result per finding, one rule per code."""
    # With the reason why it is ignored; None if it is not.
    findings: list[tuple[Finding, str | None]] = [(finding, None) for finding in report.findings]
    findings += report.ignored
    severity = {finding.code: finding.severity for finding, _ in findings}
    codes = list(severity)
    names = rule_titles()
    fallback = next(iter(report.urls), None)
    driver = {
        "name": "wdsflow",
        "semanticVersion": version.__version__,
        "version": version.__version__,
        "rules": [_rule(code, names.get(code), SEVERITIES[severity[code]]) for code in codes],
    }
    verdicts = [
        attributes_of(verdict, "reader outcome samples usable") for verdict in report.verdicts
    ]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            "WORKDIR": {"description": {"text": "The folder in which wdsflow ran."}}
        },
        "invocations": [{"executionSuccessful": not report.nothing_read}],
        "results": [_result(finding, codes, fallback, reason) for finding, reason in findings],
        "properties": {"verdicts": verdicts, "level": report.level},
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str, title: str | None, level: str) -> dict[str, object]:
    page = explain(code) if title else ""
    short = f"{title or code}."
    # The title is the first paragraph, and what is wrong the second.
    paragraphs = [" ".join(part.split()) for part in page.split("\n\n")]
    later = [part for part in paragraphs[1:] if part]
    fault = later[0].removeprefix("What: ") if later else ""
    return {
        "id": code,
        "shortDescription": {"text": short},
        "fullDescription": {"text": fault[:1].upper() + fault[1:] or short},
        "help": {"text": page or f"See: wdsflow explain {code}"},
        "defaultConfiguration": {"level": level},
    }


def _result(
    finding: Finding, codes: list[str], fallback: str | None, reason: str | None
) -> dict[str, object]:
    text = plain_line(finding.message)
    repair = finding.repair
    if repair is not None:
        kind = "Fix" if repair.safe else "Fix (unsafe)"
        text += f"\n{kind}: {' '.join(command_lines(repair.command))}"
    result: dict[str, object] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": SEVERITIES[finding.severity],
        "message": {"text": text},
        "partialFingerprints": {"wdsflow/v1": fingerprint(finding)},
        "properties": {"count": finding.count, "readers": list(finding.readers)},
    }
    url = finding.shard if finding.shard is not None else fallback
    if url is not None:
        # A tar has no lines; some hosts refuse a location without a line, hence line 1.
        region = {"startLine": 1}
        if finding.shard is not None:
            region["byteOffset"] = finding.offset or 0
        location: dict[str, object] = {
            "physicalLocation": {"artifactLocation": artifact(url), "region": region}
        }
        if finding.key is not None:
            location["logicalLocations"] = [{"name": plain_line(finding.key), "kind": "member"}]
        result["locations"] = [location]
    if reason is not None:
        result["suppressions"] = [
            {"kind": "external", "justification": plain_line(reason) or "ignored"}
        ]
    return result


def artifact(url: str) -> dict[str, str]:
    """Return a shard as SARIF's artifactLocation.

    It is relative to the working folder if the shard is inside it.

    >>> artifact("a b/é.tar")
    {'uri': 'a%20b/%C3%A9.tar', 'uriBaseId': 'WORKDIR'}
    >>> artifact("/data/0.tar"), artifact("s3://bucket/0.tar")
    ({'uri': 'file:///data/0.tar'}, {'uri': 's3://bucket/0.tar'})
    """
    path = relative(url)
    if len(urlsplit(path).scheme) > 1:
        return {"uri": quote(path.encode("utf-8", "surrogateescape"), safe=_SAFE + "?%#[]")}
    encoded = quote(path.encode("utf-8", "surrogateescape"), safe=_SAFE.replace(":", ""))
    if path.startswith("/"):
        return {"uri": f"file://{encoded}"}
    return {"uri": encoded, "uriBaseId": "WORKDIR"}
