"""The whole of validation: urls in, report out."""

import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from wdsflow.engines.base import check_engine
from wdsflow.readers import scan_options
from wdsflow.scan.evidence import Evidence, Gap, ScanOptions
from wdsflow.scan.scan_pool import scan_shards
from wdsflow.shards.urls import Expansion, expand
from wdsflow.text.options import keywords
from wdsflow.text.secrets import redact
from wdsflow.version import __version__

from .advice.advice import advise, advise_full_run
from .advice.invocation import Invocation
from .advice.pasteable_commands import add_commands
from .advice.repair_forecast import RepairForecast, Scan
from .advice.training_advice import advise_training
from .advice.tried_settings import try_settings
from .all_verdicts import add_pipeline, judge_all
from .catalog.rule_catalog import check_codes
from .catalog.run_rules import run_rules
from .check_options import CheckOptions, parse_checks
from .chosen_readers import ChosenReaders, chosen_readers, feed_of, level_for
from .finding import Advice
from .joined_check import JoinedCheck, scan_with
from .report.baseline import split_by_baseline
from .report.report import Report
from .rules.kit.base import Context

# Names of missing shards that a report lists.
_MOST_MISSING = 20


@keywords(CheckOptions)
def check(urls: str | Path | Iterable[str | Path], options: CheckOptions) -> Report:
    """Report whether shards will train, and what is wrong if they will not.

    If no shard can be read, there is no verdict.

    Args:
        urls: paths, brace or glob patterns, folders, ``@list.txt``, urls; ``::`` separates several
            in one string.
        options: each is a keyword argument.

    Raises:
        NoShards, UnknownReader, UnknownCode, ArgumentsError, BadRule: unknown names, or a rule with
            a code that is taken.
        TableError, JoinMismatch: the table of ``join`` cannot be read, lacks a column, or leaves no
            sample.
        PipelineError, EngineError, ValueError: no such pipeline, cluster or engine.
    """
    start = time.perf_counter()
    check_engine(options.engine, options.address)
    _check_pipeline_options(options)
    given = [str(url) for url in ([urls] if isinstance(urls, str | Path) else urls)]
    written = tuple(map(redact, given))
    expansion = expand(given, allow_pipe=options.allow_pipe)
    check_codes(options.select, options.ignore or {})
    join = None if options.join is None else JoinedCheck(options, expansion.urls)
    chosen = _chosen_readers(options, join)

    level = level_for(options, expansion.urls)
    plan = scan_options(level, chosen.readers, expansion.urls, allow_pipe=options.allow_pipe)
    scan = partial(scan_shards, jobs=options.jobs, engine=options.engine, address=options.address)
    evidence = _scan_shards(expansion, plan, scan_with(join, scan), options)

    context = Context(
        evidence, chosen.readers, (), options.max_loss, written, arguments=chosen.arguments
    )
    judged = judge_all(context, plan, scan)
    if join is not None:
        judged = join.judged(judged)
    # Advice and settings are tried on ``judged``: no change is tried on the run of a pipeline.
    context = add_pipeline(judged, options, plan)
    findings, ignored = run_rules(context, options.select, options.ignore or {})
    baseline = () if options.baseline is None else options.baseline
    findings, accepted = split_by_baseline(findings, baseline)
    findings = try_settings(findings, judged)

    invocation = _invocation(written, options)
    if join is None:
        repairs = RepairForecast(evidence, chosen.readers, plan, scan)
        advice = [*advise(judged, repairs), *advise_full_run(context.verdicts)]
    else:
        advice = _advice_with_join(join, judged, invocation)
    findings, advice = add_commands(findings, advice, invocation)

    evidence.seconds = time.perf_counter() - start
    is_refused = any(verdict.outcome == "refused" for verdict in context.verdicts)
    return Report(
        written,
        evidence,
        context.verdicts,
        findings,
        ignored,
        against_baseline=options.baseline is not None,
        forecasts=() if is_refused else context.forecasts,
        advice=advice,
        level=level,
        seconds=evidence.seconds,
        accepted=accepted,
        checks=context.checks,
        versions=context.environment | {"wdsflow": __version__},
    )


def _chosen_readers(options: CheckOptions, join: JoinedCheck | None) -> ChosenReaders:
    """Return the readers to judge: with a table only the feed, which joins it."""
    if join is None:
        return chosen_readers(options.readers, options.arguments, options.world_size)
    return feed_of(options.arguments, options.world_size, options.caption)


def _advice_with_join(join: JoinedCheck, judged: Context, invocation: Invocation) -> list[Advice]:
    """Return advice on shards and a table.

    It suggests no repair: a repair would judge the samples without the fields of the table.
    """
    advice = join.advice(judged.readers[0].name, invocation)
    if not advice and judged.arguments is not None:
        return advise_training(judged)
    return advice


def _check_pipeline_options(options: CheckOptions) -> None:
    """Raise ValueError for options of a pipeline without one, or that do not go together."""
    if parse_checks(options.check) and options.pipeline is None:
        raise ValueError("check asks about a loader: name it by pipeline, such as train.py:make")
    if options.samples is None:
        return
    if options.pipeline is None or options.check or options.level == "full":
        raise ValueError(
            "samples limits how much of a pipeline is run: name one, without check and without level full"
        )


def _scan_shards(
    expansion: Expansion, plan: ScanOptions, scan: Scan, options: CheckOptions
) -> Evidence:
    progress = options.progress(len(expansion.urls)) if options.progress is not None else None
    shards = scan(expansion.urls, plan, progress=progress)
    gaps = []
    for pattern, missing, count in expansion.gaps:
        gaps.append(Gap(pattern, tuple(missing[:_MOST_MISSING]), count))
    return Evidence(plan.level, shards, gaps)


def _invocation(written: tuple[str, ...], options: CheckOptions) -> Invocation:
    return Invocation(
        written,
        tuple(options.readers),
        options.level,
        options.arguments,
        options.world_size,
        options.allow_pipe,
        options.pipeline,
        tuple(options.join_words()),
    )
