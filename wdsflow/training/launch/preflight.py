"""Checks before a training command starts whether its shards would starve the feed."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wdsflow.joining.join_errors import JoinMismatch
from wdsflow.joining.join_options import UnpairedJoin
from wdsflow.joining.join_result import JoinResult
from wdsflow.joining.joined_fields import JoinedFields
from wdsflow.joining.joined_scan import JoinedScan, collecting
from wdsflow.readers.base import Options
from wdsflow.readers.installed_versions import versions
from wdsflow.readers.open_clip.arguments import (
    Arguments,
    ArgumentsError,
    names_shards,
    parse_arguments,
)
from wdsflow.readers.open_clip.sidecars import Sidecars, read_sidecars
from wdsflow.readers.open_clip.startup import start
from wdsflow.readers.open_clip.versions import FeedReader
from wdsflow.scan.evidence import Evidence, Gap, ScanOptions, ShardEvidence
from wdsflow.scan.layouts import layout_of
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.scan_pool import Progress, ScanOne, scan_shards
from wdsflow.shards.shard import Shard
from wdsflow.shards.short_look import some_of
from wdsflow.shards.urls import NoShards, PipeNotAllowed, expand
from wdsflow.stages.caption_sources import Captions, captions_for
from wdsflow.stages.caption_text import JsonText
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many
from wdsflow.training.feed.join.join_errors import refused_join
from wdsflow.training.feed.join.open_join import open_unchecked_join
from wdsflow.training.feed.subset.subset_advice import to_see_terms
from wdsflow.training.feed.subset.subset_scan import scan_kept
from wdsflow.training.feed_options import FeedOptions, JoinError, NothingKept, SubsetError
from wdsflow.training.stalls.field_fixes import (
    caption_fixes,
    command,
    image_fixes,
    inspect,
    likely_image,
    pipe_fixes,
    validate,
    wrong_names,
)
from wdsflow.validate.advice.invocation import Invocation
from wdsflow.validate.advice.repair_advice import advise_repair
from wdsflow.validate.advice.repair_forecast import RepairForecast
from wdsflow.validate.advice.settle import settle
from wdsflow.validate.advice.training_flags import paired_flags, with_flags
from wdsflow.validate.advice.tried_settings import try_settings
from wdsflow.validate.catalog.run_rules import run_rules
from wdsflow.validate.feed_verdict import STARVING, fatal_findings, feed_forecast
from wdsflow.validate.finding import Advice, Finding, advice_text
from wdsflow.validate.report.finding_groups import fixes as fixes_of
from wdsflow.validate.report.finding_groups import group, repair_step
from wdsflow.validate.report.finding_text import totals
from wdsflow.validate.report.report import Report
from wdsflow.validate.rules.kit.base import Context
from wdsflow.validate.rules.kit.missing_fields import field_needs
from wdsflow.validate.verdicts.judge import judge
from wdsflow.validate.verdicts.wording import no_verdict_text

_SHOWN = 3
BeginProgress = Callable[..., Progress | None]


@dataclass(frozen=True)
class _RunCommand(Invocation):
    """The command of this run; its settings can be checked with other flags."""

    options: FeedOptions = field(default_factory=FeedOptions)

    def with_training(self, flags: Sequence[str]) -> str:
        """Return the command that checks the shards with other flags of the training command."""
        return command(_with(self.options, flags), "--dry-run")


def _with(options: FeedOptions, flags: Sequence[str]) -> FeedOptions:
    """Return options with other flags of the training command; the feed's own options take precedence."""
    for name, *value in paired_flags(flags):
        if name == "--image-key":
            options = replace(options, image=value[0])
        elif name == "--text-key":
            options = replace(options, caption=value[0])
        else:
            options = replace(options, argv=tuple(with_flags(options.argv, (name, *value))))
    return options


@dataclass(frozen=True)
class Preflight:
    """The result: lines for users, and whether training must not begin."""

    lines: tuple[str, ...]
    refused: bool = False
    nothing_read: bool = False
    # On the training shards, and on those of --val-data.
    reports: tuple[Report, ...] = ()
    # Of a refusal.
    why: str = ""


def preflight(
    argv: Sequence[str],
    options: FeedOptions | None = None,
    *,
    world_size: int = 1,
    progress: BeginProgress | None = None,
    dry_run: bool = False,
) -> Preflight | None:
    """Read the names in the shards of a training command, and check that wdsflow's feed can read them.

    Args:
        argv: open_clip_train's arguments.
        options: settings of the feed.
        world_size: ranks that will train.
        progress: called with the number and the name of the shards; its result is called after each shard.
        dry_run: the reports will be shown, so the lines omit the command for them; commands only check the shards, too.

    Returns:
        None if the command trains on no shards, or if open_clip_train itself refuses it.
    """
    options = replace(options or FeedOptions(), argv=tuple(argv), dry_run=dry_run)
    try:
        arguments = parse_arguments(argv, world_size=world_size)
    except ArgumentsError:
        return None
    if not _reads_shards(arguments):
        return None
    result = _look(arguments, options, progress)
    if arguments.val_data and not result.refused:
        # Evaluation comes after an epoch of training: too late to report this error.
        shards = replace(arguments, train_data=arguments.val_data, dataset_resampled=False)
        if _reads_shards(shards):
            other = _look(shards, options, progress, trains=False)
            reports = list(result.reports)
            if other.refused:
                reports = [_refused(report, other.why) for report in reports]
            reports += other.reports
            result = Preflight(
                (*result.lines, *other.lines), other.refused, other.nothing_read, tuple(reports)
            )
    return result


def _look(
    arguments: Arguments,
    options: FeedOptions,
    progress: BeginProgress | None,
    *,
    trains: bool = True,
) -> Preflight:
    """Check the shards that ``arguments.train_data`` names."""
    started, title = time.perf_counter(), "preflight" if trains else "preflight of --val-data"

    def refusal(why: str, *hints: str, nothing_read: bool = True) -> Preflight:
        why = f"{title}: {why}"
        return Preflight(
            (*why.split("\n"), *hints), refused=True, nothing_read=nothing_read, why=why
        )

    assert arguments.train_data is not None
    try:
        expansion = expand([arguments.train_data], allow_pipe=options.allow_pipe)
    except PipeNotAllowed as error:
        return refusal(str(error), *(f"  {fix}" for fix in pipe_fixes(options)))
    except NoShards as error:
        return refusal(escape(str(error)), *([f"  {escape(error.hint)}"] if error.hint else []))
    begun = start(
        replace(arguments, train_num_samples=1, dataset_type="webdataset"), expansion.urls, None
    )
    if trains and begun.crash is not None and begun.crash_kind == "weights":
        drawn = command(_with(options, ("--dataset-resampled",)))
        return refusal(
            begun.crash.partition(": ")[2],
            *([] if arguments.dataset_resampled else [f"  with it: {drawn}"]),
        )
    # Those of OpenCLIP 3.3 are at their defaults.
    captions = captions_for(options.caption, arguments, keep_empty=False)
    urls = some_of(expansion.urls)
    what = "training shards" if trains else "shards of --val-data"
    report = progress(len(urls), what) if progress is not None else None
    try:
        join = open_unchecked_join(options, captions, urls) if trains else None
        data = arguments.train_data
        scanned = _scan(expansion.urls, urls, options, data, report, join, trains)
        if scanned.join is not None and scanned.join.resolve(urls):
            # Ambiguous samples, which are known now, lose their rows.
            scanned = _scan(expansion.urls, urls, options, data, None, join, trains)
    except SubsetError as error:
        return refusal(str(error), nothing_read=not isinstance(error, NothingKept))
    except (JoinError, UnpairedJoin) as error:
        return refusal(str(error))
    shards, subset = scanned.shards, scanned.subset
    if text := no_verdict_text(shards):
        return refusal(text, nothing_read=all(shard.error is not None for shard in shards))
    try:
        joined = scanned.joined(options, all_scanned=len(urls) == len(expansion.urls))
    except JoinMismatch as error:
        return refusal(str(refused_join(error, options)), nothing_read=False)
    gaps = [Gap(pattern, tuple(missing[:20]), count) for pattern, missing, count in expansion.gaps]
    all_scanned = len(urls) == len(expansion.urls)
    evidence = Evidence("names", shards, gaps)
    # Weights belong to patterns, which also match shards of which nothing is kept.
    whole_run = all_scanned and trains and not (subset and arguments.train_data_upsampling_factors)
    captions = captions.in_lower_case()
    context = _judge(
        evidence, arguments, options, captions, all_scanned=whole_run, sidecars=not subset
    )
    head = f"{title}: {how_many(len(shards), 'shard')}{'' if all_scanned else f' of {len(expansion.urls):,}'}"
    seconds = time.perf_counter() - started
    join = None if scanned.join is None else scanned.join.join
    result = _result(context, options, captions, head, seconds, subset, join)
    notes = [f"{title}: {text}" for text in (subset, *joined) if text]
    return replace(result, lines=(*notes, *result.lines)) if notes else result


class _Scanned(NamedTuple):
    """The evidence of shards; a line on the share that a ledger keeps, "" without one; how samples match the rows of a table."""

    shards: list[ShardEvidence]
    subset: str = ""
    join: JoinResult | None = None

    def joined(self, options: FeedOptions, *, all_scanned: bool) -> list[str]:
        """Return lines on the samples with a row, none without a table. Raises JoinMismatch, as the feed would."""
        if self.join is None:
            return []
        self.join.check(options.join_ambiguous, all_shards=all_scanned)
        return self.join.lines()


def _scan(
    all_urls: Sequence[Shard],
    urls: Sequence[Shard],
    options: FeedOptions,
    data: str,
    progress: Progress | None,
    join: JoinedFields | None,
    trains: bool,
) -> _Scanned:
    """Scan ``urls``, some of all shards, as the feed reads them: for training with a ledger and a table. Raises SubsetError, JoinError."""
    scan_options = ScanOptions("names", allow_pipe=options.allow_pipe)
    if not trains:
        return _Scanned(scan_shards(urls, scan_options, progress=progress))
    result = None
    if join is not None:
        result = JoinResult(join)
        progress = collecting(result, progress)
    if options.ledger is not None:
        shards, subset = scan_kept(all_urls, urls, scan_options, options, data, progress, join)
        return _Scanned(shards, subset, result)
    how: list[ScanOne] = [scan_shard] * len(urls)
    if join is not None:
        how = [JoinedScan(join.of(url)) for url in urls]
    shards = scan_shards(urls, scan_options, progress=progress, how=how)
    return _Scanned(shards, "", result)


def _reads_shards(arguments: Arguments) -> bool:
    return names_shards(arguments.train_data, arguments.dataset_type) and not arguments.use_naflex


def _judge(
    evidence: Evidence,
    arguments: Arguments,
    options: FeedOptions,
    captions: Captions,
    *,
    all_scanned: bool,
    sidecars: bool,
) -> Context:
    """Run the rules for our feed, and the forecast if workers fill batches from their own shards only.

    ``sidecars``: files next to the shards describe the scanned samples.
    """
    urls = [shard.url for shard in evidence.shards]
    images = tuple(
        name.strip().lower()
        for name in (options.image or arguments.image_key).split(";")
        if name.strip()
    )
    reads = Options(
        image_key=";".join(images),
        text_key=";".join(captions.members),
        json_text_key=";".join(
            name
            for source in captions.sources
            if isinstance(source, JsonText)
            for name in source.json_text_key
        ),
        seed=arguments.seed,
        workers=arguments.workers,
        world_size=arguments.world_size,
        resampled=arguments.dataset_resampled,
    )
    reader = FeedReader(reads, images, captions.members)
    context = Context(
        # At "names" F101 would advise a deeper check, which is done here.
        replace(evidence, level="headers"),
        [reader],
        [judge(evidence, reader)],
        urls=(arguments.train_data or "",),
        sidecars=read_sidecars(urls, evidence) if sidecars else Sidecars(),
        environment=versions(),
    )
    if all_scanned and options.schedule == "openclip":
        trained, outlook = feed_forecast(
            evidence, reader, context.verdicts[0], arguments, context.sidecars
        )
        context = replace(context, arguments=trained, forecasts=(outlook,))
    return context


def _result(
    context: Context,
    options: FeedOptions,
    captions: Captions,
    head: str,
    seconds: float,
    subset: str,
    join: JoinedFields | None,
) -> Preflight:
    verdict = context.verdicts[0]
    invocation = _RunCommand(context.urls, allow_pipe=options.allow_pipe, options=options)
    findings = try_settings(run_rules(context)[0], context)
    fatal = fatal_findings(context, findings)
    repairs: list[Advice] = []
    # A repair would judge the samples without the fields of a table.
    has_repair = (fatal or options.dry_run) and join is None
    if has_repair and verdict.usable < verdict.samples:
        scan = ScanOptions("names", allow_pipe=options.allow_pipe)
        repairs = advise_repair(
            context, RepairForecast(context.evidence, context.readers, scan, scan_shards)
        ).advice
    findings, repairs = settle(findings, repairs, invocation)
    shown = Report(context.urls, context.evidence, context.verdicts, findings, advice=repairs)
    report = replace(shown, forecasts=context.forecasts, level="names", seconds=seconds)
    peeked = _peek(context, options, captions, [finding.code for finding in fatal], join)
    wrong = wrong_names(captions, peeked) if peeked and not fatal else ""
    if wrong:
        funnel = None if verdict.funnel is None else replace(verdict.funnel, decoded=0, usable=0)
        verdict = replace(verdict, usable=0, funnel=funnel)
        report = replace(report, verdicts=[verdict])
    summary = (
        f"{head}, {how_many(verdict.samples, 'sample')}, {verdict.usable:,} usable, {seconds:.1f} s"
    )
    if not fatal and not wrong:
        if findings:
            summary += f"; {totals(group(findings))}"
            if not options.dry_run:
                summary += f", see: {command(options, '--dry-run')}"
        return Preflight((summary,), reports=(report,))
    lines = [summary, *([wrong] if wrong else [])]
    lines += [f"{finding.severity} {finding.code}: {finding.message}" for finding in fatal[:_SHOWN]]
    lines += _other_layout(context, peeked)
    if len(fatal) > _SHOWN:
        lines.append(f"and {len(fatal) - _SHOWN:,} more")
    fixes = _fixes(context, options, report, peeked, fatal)
    if not options.dry_run:
        fixes.append(f"full report: {command(options, '--dry-run')}")
        fixes.append(f"to train without this check: {command(options, '--no-preflight')}")
    why = wrong or (f"{subset}: {fatal[0].message}" if subset else fatal[0].message)
    printed = (*lines, *(f"  {fix}" for fix in fixes))
    return Preflight(printed, refused=True, reports=(_refused(report, why),), why=f"{head}: {why}")


def _refused(report: Report, why: str) -> Report:
    """Return the report on a run that does not start, without the forecast."""
    return replace(
        report, verdicts=[verdict.refused(why) for verdict in report.verdicts], forecasts=()
    )


def _other_layout(context: Context, peeked: Sequence[ShardEvidence]) -> list[str]:
    """Return a line on a layout that is visible in the JSON only; findings report layouts visible in names."""
    layout = layout_of(peeked)
    if layout.is_image_text or not layout_of(context.evidence.shards).is_image_text:
        return []
    return [f"the layout is {layout.text()}: wdsflow train feeds image-text pairs only"]


def _peek(
    context: Context,
    options: FeedOptions,
    captions: Captions,
    codes: Sequence[str],
    join: JoinedFields | None,
) -> list[ShardEvidence]:
    """Read the JSON of a few shards if it should or may have captions."""
    fields = {name for shard in context.evidence.shards for name in shard.fields}
    only_json = not any(isinstance(source, str) and source in fields for source in captions.sources)
    if "F101" not in codes and (codes or not only_json):
        return []
    having = [shard for shard in context.evidence.shards if {"json", "jsn"} & set(shard.fields)]
    few = (
        [having[index] for index in sorted({0, len(having) // 2, len(having) - 1})]
        if having
        else []
    )
    if few and "://" in few[0].url:
        few = few[:1]
    scan: ScanOne = scan_shard if join is None else JoinedScan(join)
    return scan_shards(
        [shard.url for shard in few],
        ScanOptions("headers", allow_pipe=options.allow_pipe),
        jobs=1,
        how=[scan] * len(few),
    )


def _fixes(
    context: Context,
    options: FeedOptions,
    report: Report,
    peeked: Sequence[ShardEvidence],
    fatal: Sequence[Finding],
) -> list[str]:
    names = sorted(
        {
            name
            for shard in context.evidence.shards
            for name in shard.fields
            if not name.startswith("*.")
        }
    )
    absent = (
        field_needs(context)[0].absent if any(finding.code == "F101" for finding in fatal) else ()
    )
    fixes: list[str] = []
    image = likely_image(names) if "image" in absent else ""
    if "caption" in absent or not fatal:
        both = replace(options, image=image) if image else options
        note = f"images may be in {escape(image, 40)}, " if image else ""
        fixes += [f"{note}{fix}" for fix in caption_fixes(both, names, peeked)]
    if "image" in absent and not fixes:
        fixes += image_fixes(options, names)
    if any(finding.code in {"P302", "P303"} for finding in fatal):
        fixes += _shared(context, options)
    fixes += _repairs(options, report, field_located=bool(fixes))
    if not fixes and not context.verdicts[0].usable:
        shards = context.evidence.shards
        with_sample = next((shard for shard in shards if shard.runs.head is not None), None)
        if with_sample is not None:
            fixes.append(f"see what a sample holds: {inspect(with_sample.url)}")
        else:
            # A cut in the first sample, for example.
            fixes.append(
                f"no shard has a whole sample: fetch them again; to see what is wrong: {validate(shards[0].url)}"
            )
    return list(dict.fromkeys(fixes))


def _repairs(options: FeedOptions, report: Report, *, field_located: bool) -> Iterator[str]:
    """Yield the planned repair, and the fixes of all errors, those of the refusal first, as a report lists them.

    ``field_located``: another location of the missing field is known, so that no field needs another name.
    """
    for advice in report.advice:
        if advice.command and not (field_located and "--rename" in (advice.options or ())):
            yield f"{advice_text([advice])}: {advice.command}"
    errors = report.errors
    if field_located:
        errors = [error for error in errors if error.code != "F101"]
    for repair, codes in sorted(fixes_of(errors), key=lambda fix: not STARVING & set(fix[1])):
        if repair.flags:
            yield f"{repair.note}: {command(_with(options, repair.flags))}"
        else:
            yield f"{repair_step(repair, codes).line}: {repair.command}"


def _shared(context: Context, options: FeedOptions) -> Iterator[str]:
    """Yield fixes for workers with too few samples; the predicate first, if it keeps less than one batch."""
    usable, arguments = context.verdicts[0].usable, context.arguments
    assert arguments is not None
    if options.ledger is not None and usable < arguments.batch_size * arguments.world_size:
        yield to_see_terms(options, context.urls[0])
    if usable >= arguments.world_size:
        yield f"one share for all workers: {command(options, schedule='balanced')}"
