"""Looks at the shards of a training command before it starts: would the feed starve?"""

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wdsflow.shards.escape import escape
from wdsflow.shards.urls import NoShards, expand
from wdsflow.text.shell import quote_path
from wdsflow.validate.arguments import Arguments, ArgumentsError, parse_arguments
from wdsflow.validate.consumers.base import Options
from wdsflow.validate.environment import versions
from wdsflow.validate.evidence import Evidence, Gap, ShardEvidence
from wdsflow.validate.finding import Finding
from wdsflow.validate.forecast import forecast
from wdsflow.validate.pool import Progress, scan_shards
from wdsflow.validate.rules.base import Context, number
from wdsflow.validate.rules.engine import run_rules
from wdsflow.validate.rules.missing import wants
from wdsflow.validate.scan_options import ScanOptions
from wdsflow.validate.sidecars import read_sidecars
from wdsflow.validate.verdict import judge

from .captions import Captions, captions_for
from .cures import caption_cures, command, image_cures, wrong_names
from .options import FeedOptions
from .reader import FeedReader

# Shards that are read; of more, as many that lie evenly among them. What a pipe gives must be read to its end.
_MOST, _MOST_REMOTE, _MOST_PIPED = 2_000, 200, 4
_STARVES = frozenset({"F101", "P301", "P302", "P303"})
_SHOWN = 3
_PAST = "to train in any case: wdsflow train --no-preflight -- ..."

Found = Callable[[int], Progress | None]


@dataclass(frozen=True)
class Preflight:
    """What a look at the shards said: lines for people, and whether training must not begin."""

    lines: tuple[str, ...]
    refused: bool = False


def preflight(
    argv: Sequence[str],
    options: FeedOptions | None = None,
    *,
    world_size: int = 1,
    progress: Found | None = None,
) -> Preflight | None:
    """Read the names in the shards of a training command, and judge them by what wdsflow's feed needs.

    Args:
        argv: open_clip_train's arguments.
        options: settings of the feed.
        world_size: ranks that will train.
        progress: called with the number of shards; what it returns is called after each shard.

    Returns:
        None where the command trains on no shards, or is one that open_clip_train itself refuses.
    """
    options = options or FeedOptions()
    try:
        arguments = parse_arguments(argv, world_size=world_size)
    except ArgumentsError:
        return None
    if not _reads_shards(arguments):
        return None
    result = _look(arguments, options, progress)
    if arguments.val_data and not result.refused:
        # Evaluation comes after an epoch of training: too late to learn that it has nothing to read.
        shards = replace(arguments, train_data=arguments.val_data, dataset_resampled=False)
        if _reads_shards(shards):
            other = _look(shards, options, progress, trains=False)
            result = Preflight((*result.lines, *other.lines), other.refused)
    return result


def _look(arguments: Arguments, options: FeedOptions, progress: Found | None, *, trains: bool = True) -> Preflight:
    """Judge the shards that ``arguments.train_data`` names."""
    start, title = time.perf_counter(), "preflight" if trains else "preflight of --val-data"
    assert arguments.train_data is not None
    try:
        expansion = expand([arguments.train_data])
    except NoShards as error:
        hint = (f"  {escape(error.hint)}",) if error.hint else ()
        return Preflight((f"{title}: {escape(str(error))}", *hint), refused=True)
    captions = captions_for(options.caption, Namespace(**_modern(arguments)), keep_empty=False)
    urls = _some(expansion.urls)
    told = progress(len(urls)) if progress is not None else None
    shards = scan_shards(urls, ScanOptions("names", allow_pipe=options.allow_pipe), progress=told)
    gaps = [Gap(pattern, tuple(missing[:20]), count) for pattern, missing, count in expansion.gaps]
    whole = len(urls) == len(expansion.urls)
    context = _judge(Evidence("names", shards, gaps), arguments, options, captions, whole=whole and trains)
    head = f"{title}: {number(len(urls), 'shard')}{'' if whole else f' of {len(expansion.urls):,}'}"
    return _result(context, options, captions, head, time.perf_counter() - start)


def _reads_shards(arguments: Arguments) -> bool:
    kind, data = arguments.dataset_type, arguments.train_data or ""
    if kind == "auto" and data.split(".")[-1] in {"csv", "tsv"}:
        return False
    return bool(data) and kind in {"auto", "webdataset"} and not arguments.use_naflex


def _modern(arguments: Arguments) -> dict[str, object]:
    """Return the arguments of OpenCLIP 4 that say where captions are; 3.3 has none, and they are at their defaults."""
    names = ("text_key", "json_text_key", "json_text_key_probs", "seed")
    return {name: getattr(arguments, name) for name in names}


def _some(urls: list[str]) -> list[str]:
    first = urls[0] if urls else ""
    most = _MOST_PIPED if first.startswith("pipe:") else _MOST_REMOTE if "://" in first else _MOST
    return urls if len(urls) <= most else [urls[index * len(urls) // most] for index in range(most)]


def _judge(
    evidence: Evidence, arguments: Arguments, options: FeedOptions, captions: Captions, *, whole: bool
) -> Context:
    """Run the rules for our feed; the forecast too where each worker must fill its batches from shards of its own."""
    urls = [shard.url for shard in evidence.shards]
    images = tuple(name.strip().lower() for name in (options.image or arguments.image_key).split(";") if name.strip())
    reads = Options(
        image_key=";".join(images),
        text_key=";".join(captions.members),
        seed=arguments.seed,
        workers=arguments.workers,
        world_size=arguments.world_size,
        resampled=arguments.dataset_resampled,
    )
    reader = FeedReader(reads, images, captions.members)
    context = Context(
        replace(evidence, level="headers"),  # at "names" F101 would advise a closer look, which is taken here
        [reader],
        [judge(evidence, reader)],
        urls=(arguments.train_data or "",),
        sidecars=read_sidecars(urls, evidence),
        environment=versions(),
    )
    if whole and options.schedule == "openclip":
        # Unlike OpenCLIP the feed expands globs and counts samples.
        named = arguments.train_data if arguments.train_data_upsampling_factors else "::".join(urls)
        given = arguments.train_num_samples or max(1, evidence.samples)
        context.arguments = replace(arguments, train_data=named, train_num_samples=given, dataset_type="webdataset")
        context.forecast = [forecast(evidence, reader, context.arguments, context.sidecars)]
    return context


def _result(context: Context, options: FeedOptions, captions: Captions, head: str, seconds: float) -> Preflight:
    verdict = context.verdicts[0]
    findings, _ = run_rules(context)
    fatal = _fatal(context, findings)
    peeked = _peek(context, options, captions, [finding.code for finding in fatal])
    wrong = wrong_names(captions, peeked) if peeked and not fatal else ""
    look = f"wdsflow validate {quote_path(context.urls[0])}"
    summary = f"{head}, {number(verdict.samples, 'sample')}, {verdict.usable:,} usable, {seconds:.1f} s"
    if not fatal and not wrong:
        others = f"; {number(len(findings), 'finding')}, see: {look}" if findings else ""
        return Preflight((summary + others,))
    lines = [summary, *([wrong] if wrong else [])]
    lines += [f"{finding.severity} {finding.code}: {finding.message}" for finding in fatal[:_SHOWN]]
    if len(fatal) > _SHOWN:
        lines.append(f"and {len(fatal) - _SHOWN:,} more")
    cures = _cures(context, options, fatal, peeked)
    lines += [f"  {cure}" for cure in (*cures, f"all that is wrong, with cures: {look}", _PAST)]
    return Preflight(tuple(lines), refused=True)


def _fatal(context: Context, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings for which training would wait for batches that never come."""
    evidence, verdict = context.evidence, context.verdicts[0]
    if all(shard.error is not None for shard in evidence.shards):
        unreadable = [finding for finding in findings if finding.severity == "error" and finding.code.startswith("W")]
        return unreadable or [Finding("W020", "error", "no shard can be read")]
    if sum(shard.unreached for shard in evidence.shards):
        return []  # the feed goes on behind damage, and what it finds there is not known yet
    fatal = [finding for finding in findings if finding.code in _STARVES]
    if not verdict.usable and not fatal:
        reasons = [reason.message for reason in verdict.reasons] or ["the shards hold no samples"]
        fatal = [Finding("P301", "error", f"no sample reaches a batch: {reasons[0]}")]
    return fatal


def _peek(context: Context, options: FeedOptions, captions: Captions, codes: Sequence[str]) -> list[ShardEvidence]:
    """Look into the json of a few shards, where captions are said to be there or may be."""
    fields = {name for shard in context.evidence.shards for name in shard.fields}
    only_json = not any(isinstance(source, str) and source in fields for source in captions.sources)
    if "F101" not in codes and (codes or not only_json):
        return []
    having = [shard for shard in context.evidence.shards if {"json", "jsn"} & set(shard.fields)]
    few = [having[index] for index in sorted({0, len(having) // 2, len(having) - 1})] if having else []
    if few and "://" in few[0].url:
        few = few[:1]
    return scan_shards([shard.url for shard in few], ScanOptions("headers", allow_pipe=options.allow_pipe), jobs=1)


def _cures(
    context: Context, options: FeedOptions, fatal: Sequence[Finding], peeked: Sequence[ShardEvidence]
) -> list[str]:
    names = sorted({name for shard in context.evidence.shards for name in shard.fields if not name.startswith("*.")})
    absent = wants(context)[0].absent if any(finding.code == "F101" for finding in fatal) else ()
    cures: list[str] = []
    if "caption" in absent or not fatal:
        cures += caption_cures(options, names, peeked)
    if "image" in absent:
        cures += image_cures(options, names)
    if any(finding.code in {"P302", "P303"} for finding in fatal):
        cures.append(f"one share for all workers: {command(options, schedule='balanced')}")
    for finding in fatal:
        if finding.repair is not None and not (finding.code == "F101" and cures):
            note = f" ({finding.repair.note})" if finding.repair.note else ""
            cures.append(f"or: {finding.repair.command}{note}")
    return list(dict.fromkeys(cures))
