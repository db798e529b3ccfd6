"""The whole of validation: urls in, report out."""

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from wdsflow.engines.base import check_engine
from wdsflow.readers import READERS, resolve, scan_options
from wdsflow.readers.base import Options, Reader
from wdsflow.readers.installed_versions import versions
from wdsflow.readers.open_clip.arguments import Arguments, parse_arguments
from wdsflow.readers.open_clip.sidecars import read_sidecars
from wdsflow.readers.open_clip.url_expansion import not_expanded
from wdsflow.scan.evidence import Evidence, Gap, Level, ScanOptions
from wdsflow.scan.scan_pool import scan_shards
from wdsflow.shards.shard import Shard
from wdsflow.shards.urls import NoShards, PipeNotAllowed, expand
from wdsflow.text.options import keywords
from wdsflow.text.secrets import redact
from wdsflow.version import __version__

from .advice.advice import advise, read_on
from .advice.invocation import Invocation
from .advice.repair_forecast import RepairForecast, Scan
from .advice.settle import settle
from .advice.training_advice import try_settings
from .check_options import CheckOptions, checks
from .forecast.forecast import Forecast, forecast
from .report.baseline import split_by_baseline
from .report.report import Report
from .rules.kit.base import Context
from .rules.rule_catalog import check_codes, run_rules
from .verdicts.judge import judge
from .verdicts.verdict import Outcome, Reason, Verdict
from .verdicts.wording import no_verdict_text

# Bytes of shards that are decoded without being asked to: some seconds on one core.
_MOST_DECODED = 64 << 20
# Bytes of a tar.
_SMALLEST = 10 << 10


@keywords(CheckOptions)
def check(urls: str | Path | Iterable[str | Path], options: CheckOptions) -> Report:
    """Report whether shards will train, and what is wrong if they will not. If none can be read, there is no verdict.

    Args:
        urls: paths, brace or glob patterns, folders, ``@list.txt``, urls; ``::`` separates several in one string.
        options: each is a keyword argument.

    Raises:
        NoShards, UnknownReader, UnknownCode, ArgumentsError, BadRule: unknown names, or a rule with a code that is taken.
        PipelineError, EngineError, ValueError: no such pipeline, cluster or engine.
    """
    start = time.perf_counter()
    _refuse_invalid(options)
    scan = partial(scan_shards, jobs=options.jobs, engine=options.engine, address=options.address)
    ignore = options.ignore or {}
    given = _as_texts(urls)
    expansion = expand(given, allow_pipe=options.allow_pipe)
    written = tuple(map(redact, given))
    check_codes(options.select, ignore)
    parsed, readers = _readers(options.readers, options.arguments, options.world_size)

    level = level_for(options, expansion.urls)
    plan = scan_options(level, readers, expansion.urls, allow_pipe=options.allow_pipe)
    progress = options.progress(len(expansion.urls)) if options.progress is not None else None
    shards = scan(expansion.urls, plan, progress=progress)
    gaps = [Gap(pattern, tuple(missing[:20]), count) for pattern, missing, count in expansion.gaps]
    evidence = Evidence(level, shards, gaps)

    judged = _context(evidence, readers, options.max_loss, written, parsed, plan, scan)
    context = _with_pipeline(judged, options, plan)
    findings, ignored = run_rules(context, options.select, ignore)
    baseline = () if options.baseline is None else options.baseline
    findings, accepted = split_by_baseline(findings, baseline)
    findings = try_settings(findings, judged)
    repairs = RepairForecast(evidence, readers, plan, scan)
    advice = [*advise(judged, repairs), *read_on(context.verdicts)]
    findings, advice = settle(findings, advice, _invocation(written, options))

    evidence.seconds = time.perf_counter() - start
    return Report(
        written,
        evidence,
        context.verdicts,
        findings,
        ignored,
        against_baseline=options.baseline is not None,
        forecasts=context.forecasts,
        advice=advice,
        level=level,
        seconds=evidence.seconds,
        accepted=accepted,
        checks=context.checks,
        versions=context.environment | {"wdsflow": __version__},
    )


def _refuse_invalid(options: CheckOptions) -> None:
    """Raise EngineError or ValueError for options that do not go together."""
    check_engine(options.engine, options.address)
    if checks(options.check) and options.pipeline is None:
        raise ValueError("check asks about a loader: name it by pipeline, such as train.py:make")
    if options.samples is None:
        return
    if options.pipeline is None or options.check or options.level == "full":
        raise ValueError(
            "samples limits how much of a pipeline is run: name one, without check and without level full"
        )


def _as_texts(urls: str | Path | Iterable[str | Path]) -> list[str]:
    several = [urls] if isinstance(urls, str | Path) else urls
    # A Shard is a text that knows more than its characters: it stays what it is.
    return [url if isinstance(url, str) else str(url) for url in several]


def _invocation(written: tuple[str, ...], options: CheckOptions) -> Invocation:
    """Return what was asked, for commands that repeat it."""
    return Invocation(
        written,
        tuple(options.readers),
        options.level,
        options.arguments,
        options.world_size,
        options.allow_pipe,
        options.pipeline,
    )


def _context(
    evidence: Evidence,
    readers: Sequence[Reader],
    max_loss: float,
    urls: tuple[str, ...],
    parsed: Arguments | None,
    options: ScanOptions,
    scan: Scan,
) -> Context:
    """Return the input of rules; it has verdicts and forecasts if there is a sample to judge."""
    sidecars = read_sidecars([shard.url for shard in evidence.shards], evidence)
    context = Context(
        evidence, readers, (), max_loss, urls, parsed, sidecars=sidecars, environment=versions()
    )
    if no_verdict_text(evidence.shards):
        return context
    forecasts: dict[str, Forecast] = {}
    if parsed is not None:
        held_out = _scan_validation(evidence, urls, parsed, options, scan)
        forecasts = {
            reader.name: forecast(evidence, reader, parsed, sidecars, validation=held_out)
            for reader in readers
            if reader.name.startswith("open-clip")
        }
    verdicts = [
        _overrule(judge(evidence, reader, max_loss), forecasts.get(reader.name))
        for reader in readers
    ]
    # A training command says itself how OpenCLIP opens its shards.
    is_named = parsed is not None and parsed.train_data is not None
    verdicts = [
        verdict
        if is_named and reader.name in forecasts
        else _by_commands(verdict, reader, evidence)
        for verdict, reader in zip(verdicts, readers, strict=True)
    ]
    return replace(context, verdicts=verdicts, forecasts=tuple(forecasts.values()))


def _with_pipeline(context: Context, options: CheckOptions, plan: ScanOptions) -> Context:
    """Add the verdict on the user's own pipeline, or the answers to questions about it."""
    if options.pipeline is None or no_verdict_text(context.evidence.shards):
        return context
    if options.check:
        # Rarely needed.
        from .pipeline.check_loader import check_loader

        found = check_loader(options.pipeline, checks(options.check), context.evidence, plan)
        return replace(context, checks=found)
    # Rarely needed.
    from .pipeline.judge_pipeline import RunLimits, judge_pipeline

    limits = RunLimits(options.samples, whole=options.level == "full")
    verdict = judge_pipeline(
        options.pipeline, context.evidence, context.max_loss, limits, allow_pipe=options.allow_pipe
    )
    return replace(context, verdicts=(*context.verdicts, verdict))


def _readers(
    requested: Sequence[str], arguments: Sequence[str] | None, world_size: int
) -> tuple[Arguments | None, list[Reader]]:
    environment = versions()
    names = list(dict.fromkeys(name for each in requested for name in resolve(each, environment)))
    parsed = (
        None
        if arguments is None
        else parse_arguments(arguments, world_size=world_size, readers=names)
    )
    # How ranks divide shards depends on their workers, which only the training command states.
    return parsed, [READERS[name](parsed.options(name) if parsed else Options()) for name in names]


def readers_of(
    options: CheckOptions, level: Level, urls: Sequence[Shard]
) -> tuple[list[Reader], ScanOptions]:
    """Return the readers of a check, without a training command, and what a scan looks for. Raises UnknownReader."""
    check_engine(options.engine, options.address)
    _, readers = _readers(options.readers, None, options.world_size)
    return readers, scan_options(level, readers, urls, allow_pipe=False)


def level_for(options: CheckOptions, urls: Sequence[Shard]) -> Level:
    """Return the level at which shards are read: for "auto" the exact one, if that takes some seconds at most."""
    if options.level != "auto":
        return options.level
    if options.pipeline is not None or len(urls) > _MOST_DECODED // _SMALLEST:
        return "headers"
    paths = [url.path for url in urls]
    sizes = [os.path.getsize(path) for path in paths if path is not None and os.path.isfile(path)]
    return "full" if None not in paths and sum(sizes) <= _MOST_DECODED else "headers"


def _scan_validation(
    evidence: Evidence, urls: Sequence[str], parsed: Arguments, options: ScanOptions, scan: Scan
) -> Evidence | None:
    """Scan the shards of ``--val-data``; None if none can be found."""
    if not parsed.val_data:
        return None
    if not_expanded(parsed.val_data):
        # OpenCLIP takes the pattern for a name: the forecast reports it.
        return None
    if parsed.val_data == parsed.train_data or redact(parsed.val_data) == "::".join(urls):
        return evidence
    try:
        found = expand([parsed.val_data], allow_pipe=options.allow_pipe).urls
        return Evidence(options.level, scan(found, options))
    except PipeNotAllowed:
        raise
    except NoShards:
        # The forecast reports this itself.
        return None


def _by_commands(verdict: Verdict, reader: Reader, evidence: Evidence) -> Verdict:
    """Return a verdict on shards that the reader opens only by commands with a title that states it."""
    if not any(reader.unreached(shard.url) for shard in evidence.shards):
        return verdict
    return replace(verdict, title=f"{verdict.title} through pipe: urls")


def _overrule(verdict: Verdict, result: Forecast | None) -> Verdict:
    """Replace the outcome if the command as a whole crashes or starves although samples pass."""
    if result is None:
        return verdict
    outcome: Outcome
    if result.crash is not None:
        outcome, text = "crashes", result.crash
    elif result.stalled:
        outcome, text = "stalls", str(result.stalled[0])
    elif result.validation_crash and result.validation:
        # After the first epoch: OpenCLIP evaluates before it saves the checkpoint.
        outcome, text = "crashes", result.validation
    else:
        return verdict
    if verdict.outcome == outcome:
        return verdict
    return replace(
        verdict, outcome=outcome, reasons=(Reason("forecast", 0, text), *verdict.reasons)
    )
