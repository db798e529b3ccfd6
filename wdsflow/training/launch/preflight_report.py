"""From judged shards to the result of a preflight: its report, and the lines that a user sees."""

from collections.abc import Sequence
from dataclasses import replace

from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.scan_pool import scan_shards
from wdsflow.text.words import how_many
from wdsflow.training.stalls.field_fixes import json_names_problem, rerun_command
from wdsflow.validate.advice.pasteable_commands import add_commands
from wdsflow.validate.advice.repair_advice import advise_repair
from wdsflow.validate.advice.repair_forecast import RepairForecast
from wdsflow.validate.advice.tried_settings import try_settings
from wdsflow.validate.catalog.run_rules import run_rules
from wdsflow.validate.feed_verdict import fatal_findings
from wdsflow.validate.finding import Advice, Finding
from wdsflow.validate.report.finding_groups import group_findings
from wdsflow.validate.report.finding_text import totals
from wdsflow.validate.report.report import Report

from .json_preview import other_layout, preview_json
from .judged_data import JudgedData
from .preflight_fixes import fixes_for
from .preflight_outcome import Preflight, refused_report
from .run_command import RunCommand

# Fatal findings that a refusal lists.
_MOST_FINDINGS = 3


def result_of(judged: JudgedData, head: str, seconds: float) -> Preflight:
    """Return the result of the preflight.

    ``head``: the first words of its first line. ``seconds``: the duration of the check.
    """
    rule_findings, _ = run_rules(judged.context)
    findings = try_settings(rule_findings, judged.context)
    fatal = fatal_findings(judged.context, findings)
    report = _report(judged, findings, seconds, is_fatal=bool(fatal))
    preview = preview_json(judged, [finding.code for finding in fatal])
    wrong = ""
    if preview and not fatal:
        wrong = json_names_problem(judged.captions, preview)
    if wrong:
        report = _without_captions(report)
    (verdict,) = report.verdicts
    samples = how_many(verdict.samples, "sample")
    summary = f"{head}, {samples}, {verdict.usable:,} usable, {seconds:.1f} s"
    if not fatal and not wrong:
        return Preflight((_accepted(summary, judged, report),), reports=(report,))

    lines = _refused_lines(summary, judged, report, preview, fatal, wrong)
    why = wrong or fatal[0].message
    if judged.kept and not wrong:
        why = f"{judged.kept}: {why}"
    reports = (refused_report(report, why),)
    return Preflight(tuple(lines), refused=True, reports=reports, why=f"{head}: {why}")


def _report(
    judged: JudgedData, findings: Sequence[Finding], seconds: float, *, is_fatal: bool
) -> Report:
    """Return the report, with the commands of findings and repairs."""
    context, options = judged.context, judged.options
    verdict = context.verdicts[0]
    repairs: list[Advice] = []
    shows_repair = is_fatal or options.dry_run
    # A repair would judge the samples without the fields of a table.
    if shows_repair and judged.join is None and verdict.usable < verdict.samples:
        scan_options = ScanOptions("names", allow_pipe=options.allow_pipe)
        forecast = RepairForecast(context.evidence, context.readers, scan_options, scan_shards)
        repairs = advise_repair(context, forecast).advice
    run_command = RunCommand(context.urls, allow_pipe=options.allow_pipe, options=options)
    settled_findings, settled_repairs = add_commands(findings, repairs, run_command)
    return Report(
        context.urls,
        context.evidence,
        context.verdicts,
        settled_findings,
        forecasts=context.forecasts,
        advice=settled_repairs,
        level="names",
        seconds=seconds,
    )


def _without_captions(report: Report) -> Report:
    """Return the report on samples none of which has a caption where the run looks for it."""
    (verdict,) = report.verdicts
    funnel = verdict.funnel
    if funnel is not None:
        funnel = replace(funnel, decoded=0, usable=0)
    return replace(report, verdicts=[replace(verdict, usable=0, funnel=funnel)])


def _accepted(summary: str, judged: JudgedData, report: Report) -> str:
    """Return the line on shards that training reads, with the number of findings."""
    if not report.findings:
        return summary
    line = f"{summary}; {totals(group_findings(report.findings))}"
    if judged.options.dry_run:
        # The report is shown.
        return line
    return f"{line}, see: {rerun_command(judged.options, '--dry-run')}"


def _refused_lines(
    summary: str,
    judged: JudgedData,
    report: Report,
    preview: Sequence[ShardEvidence],
    fatal: Sequence[Finding],
    wrong: str,
) -> list[str]:
    """Return the lines on shards on which training does not begin: why, and what to do."""
    options = judged.options
    lines = [summary]
    if wrong:
        lines.append(wrong)
    shown = fatal[:_MOST_FINDINGS]
    lines += [f"{finding.severity} {finding.code}: {finding.message}" for finding in shown]
    lines += other_layout(judged, preview)
    if len(fatal) > _MOST_FINDINGS:
        lines.append(f"and {len(fatal) - _MOST_FINDINGS:,} more")
    fixes = fixes_for(judged, report, preview, fatal)
    if not options.dry_run:
        fixes.append(f"full report: {rerun_command(options, '--dry-run')}")
        fixes.append(f"to train without this check: {rerun_command(options, '--no-preflight')}")
    return [*lines, *(f"  {fix}" for fix in fixes)]
