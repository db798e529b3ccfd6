"""The verdicts of all readers.

Includes the forecast of a training command, and a run of the user's own pipeline.
"""

from collections.abc import Sequence
from dataclasses import replace

from wdsflow.readers.base import Reader
from wdsflow.readers.installed_versions import versions
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.sidecars import read_sidecars
from wdsflow.readers.open_clip.url_expansion import not_expanded
from wdsflow.readers.open_clip.versions import FeedReader
from wdsflow.scan.evidence import Evidence, ScanOptions
from wdsflow.shards.urls import NoShards, PipeNotAllowed, expand
from wdsflow.text.secrets import redact

from .advice.repair_forecast import Scan
from .check_options import CheckOptions, parse_checks
from .feed_verdict import feed_forecast
from .forecast.forecast import forecast
from .forecast.forecast_result import Forecast
from .rules.kit.base import Context
from .verdicts.judge import judge
from .verdicts.verdict import Outcome, Reason, Verdict
from .verdicts.wording import no_verdict_text


def judge_all(context: Context, plan: ScanOptions, scan: Scan) -> Context:
    """Add the verdicts and forecasts of all readers, if there is a sample to judge.

    Args:
        context: with the evidence, the readers and the training command.
        plan: what the scan looked for.
        scan: scans the shards of ``--val-data``.
    """
    evidence = context.evidence
    sidecars = read_sidecars([shard.url for shard in evidence.shards], evidence)
    context = replace(context, sidecars=sidecars, environment=versions())
    if no_verdict_text(evidence.shards):
        return context
    forecasts: dict[str, Forecast] = {}
    arguments = context.arguments
    if arguments is not None:
        held_out = _scan_validation(evidence, context.urls, arguments, plan, scan)
        for reader in context.readers:
            if isinstance(reader, FeedReader):
                return _add_feed_verdict(context, reader, arguments, held_out)
            if reader.runs_training_command:
                forecasts[reader.name] = forecast(
                    evidence, reader, arguments, sidecars, validation=held_out
                )
    # A training command says itself how OpenCLIP opens its shards.
    is_named = arguments is not None and arguments.train_data is not None
    verdicts = []
    for reader in context.readers:
        expected = forecasts.get(reader.name)
        verdict = _with_outcome_of_command(judge(evidence, reader, context.max_loss), expected)
        if expected is None or not is_named:
            verdict = _with_pipe_title(verdict, reader, evidence)
        verdicts.append(verdict)
    return replace(context, verdicts=verdicts, forecasts=tuple(forecasts.values()))


def _add_feed_verdict(
    context: Context, reader: FeedReader, arguments: Arguments, held_out: Evidence | None
) -> Context:
    """Add the verdict and the forecast of the feed.

    The findings show why its run would not start.
    """
    verdict = judge(context.evidence, reader, context.max_loss)
    trained, expected = feed_forecast(
        context.evidence, reader, verdict, arguments, context.sidecars, held_out
    )
    return replace(context, verdicts=[verdict], arguments=trained, forecasts=(expected,))


def add_pipeline(context: Context, options: CheckOptions, plan: ScanOptions) -> Context:
    """Add the verdict on the user's own pipeline, or the answers to questions about it."""
    if options.pipeline is None or no_verdict_text(context.evidence.shards):
        return context
    if options.check:
        # Rarely needed.
        from .pipeline.check_loader import check_loader

        results = check_loader(
            options.pipeline, parse_checks(options.check), context.evidence, plan
        )
        return replace(context, checks=results)
    # Rarely needed.
    from .pipeline.judge_pipeline import RunLimits, judge_pipeline

    limits = RunLimits(options.samples, whole=options.level == "full")
    verdict = judge_pipeline(
        options.pipeline, context.evidence, context.max_loss, limits, allow_pipe=options.allow_pipe
    )
    return replace(context, verdicts=(*context.verdicts, verdict))


def _scan_validation(
    evidence: Evidence, urls: Sequence[str], arguments: Arguments, plan: ScanOptions, scan: Scan
) -> Evidence | None:
    """Scan the shards of ``--val-data``; None if it names none, or none that exist."""
    if not arguments.val_data:
        return None
    if not_expanded(arguments.val_data):
        # OpenCLIP takes the pattern for a name: the forecast reports it.
        return None
    if arguments.val_data == arguments.train_data or redact(arguments.val_data) == "::".join(urls):
        return evidence
    try:
        shards = expand([arguments.val_data], allow_pipe=plan.allow_pipe).urls
        return Evidence(plan.level, scan(shards, plan))
    except PipeNotAllowed:
        raise
    except NoShards:
        # The forecast reports this itself.
        return None


def _with_pipe_title(verdict: Verdict, reader: Reader, evidence: Evidence) -> Verdict:
    """Return a verdict whose title states that its reader needs ``pipe:`` URLs.

    It is unchanged if the reader opens all shards without commands.
    """
    if not any(reader.why_not_opened(shard.url) for shard in evidence.shards):
        return verdict
    return replace(verdict, title=f"{verdict.title} through pipe: urls")


def _with_outcome_of_command(verdict: Verdict, expected: Forecast | None) -> Verdict:
    """Replace the outcome if the command as a whole crashes or starves although samples pass."""
    if expected is None:
        return verdict
    outcome: Outcome = "crashes"
    if expected.crash is not None:
        text = expected.crash
    elif expected.stalled:
        outcome = "stalls"
        text = str(expected.stalled[0])
    elif expected.validation_crash and expected.validation:
        # After the first epoch: OpenCLIP evaluates before it saves the checkpoint.
        text = expected.validation
    else:
        return verdict
    if verdict.outcome == outcome:
        return verdict
    reasons = (Reason("forecast", 0, text), *verdict.reasons)
    return replace(verdict, outcome=outcome, reasons=reasons)
