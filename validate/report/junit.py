"""The report as JUnit XML: one suite per reader, to show on a CI page which one fails, and one for the shards."""

import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from wdsflow.text.words import command_lines, plain, relative

from ..finding import Finding
from ..verdicts.verdict import Verdict
from .finding_groups import SEVERITIES, titles
from .report import Report
from .report_text import summary_and_reasons

# XML 1.0 cannot write these, not even as references.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """Return the report as XML text."""
    root = Element("testsuites", name="wdsflow", time=f"{report.seconds:.3f}")
    for verdict in report.verdicts:
        _verdict_suite(root, verdict)
    _shard_suite(root, report)
    suites = root.findall("testsuite")
    for total in ("tests", "failures"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in suites)))
    root.set("errors", "0")
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _verdict_suite(root: Element, verdict: Verdict) -> None:
    suite = SubElement(root, "testsuite", name=_text(verdict.reader))
    case = SubElement(suite, "testcase", name="trains", classname=_text(f"wdsflow.{verdict.reader}"))
    summary, reasons = summary_and_reasons(verdict)
    text = _text(f"{verdict.title} {verdict.outcome}: {summary}")
    if verdict.outcome == "trains":
        SubElement(case, "system-out").text = text
    else:
        SubElement(case, "failure", type=verdict.outcome, message=text).text = "\n".join(map(_text, reasons)) or text
    _totals(suite)


def _shard_suite(root: Element, report: Report) -> None:
    """Add cases for each shard: for each rule with findings in it, and for readers that use none of its samples."""
    suite, names = SubElement(root, "testsuite", name="shards"), titles()
    unread = {shard.url: shard.error_detail or shard.error for shard in report.evidence.shards if shard.error}
    by_shard: dict[str, dict[str, list[Finding]]] = {shard.url: {} for shard in report.evidence.shards}
    for finding in report.findings:
        by_shard.setdefault(finding.shard or "", {}).setdefault(finding.code, []).append(finding)
    for url, by_code in by_shard.items():
        shown = _text(relative(url)) if url else "all shards"
        barren = [verdict.title.split(" (")[0] for verdict in report.verdicts if url in verdict.barren]
        if barren:
            case = SubElement(suite, "testcase", name="has samples that reach a batch", classname=shown)
            SubElement(case, "failure", type="error", message=_text(f"not for {', '.join(barren)}"))
        elif not by_code:
            case = SubElement(suite, "testcase", name="sound", classname=shown)
            if url in unread:
                SubElement(case, "failure", type="error", message=_text(unread[url]))
        for code, findings in by_code.items():
            case = SubElement(suite, "testcase", name=f"{code} {names.get(code, '')}".rstrip(), classname=shown)
            _findings(case, findings)
    _totals(suite)


def _findings(case: Element, findings: list[Finding]) -> None:
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        SubElement(case, "failure", type="error", message=_text(errors[0].message)).text = _lines(errors)
    others = [finding for finding in findings if finding.severity != "error"]
    if others:  # JUnit has no warnings: they are shown, and do not fail
        SubElement(case, "system-out").text = _lines(others)


def _lines(findings: Iterable[Finding]) -> str:
    lines = []
    for finding in findings:
        lines.append(f"{SEVERITIES[finding.severity]}: {_text(finding.message)}")
        lines += [f"  sample: {_text(finding.key)}"] if finding.key is not None else []
        lines += [f"  byte: {finding.offset}"] if finding.offset is not None else []
        if finding.repair is not None:
            lines += [f"  fix: {_legal(line)}" for line in command_lines(finding.repair.command)]
    return "\n".join(lines)


def _totals(suite: Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(sum(1 for case in cases if case.find("failure") is not None)))
    suite.set("errors", "0")


def _text(text: str) -> str:
    return _legal(plain(text))


def _legal(text: str) -> str:
    return _ILLEGAL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
