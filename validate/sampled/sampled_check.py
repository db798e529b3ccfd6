"""Proves from random samples that few samples are lost, without reading the others.

Each draw takes a shard, and in it a sample, at random, independently of all other draws and with
replacement. So draws are independent although the samples of one shard are alike, and the number of
lost ones among n draws is binomial with p, the share of lost samples: of all samples if
``sizes.json`` lists every shard (shards are drawn by their samples), otherwise the mean over shards
of the share in each (all shards are drawn alike). ``binomial_test`` decides when n is enough.
"""

import os
import random
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from wdsflow.pieces.pieces import with_headers
from wdsflow.pieces.view_source import view_of
from wdsflow.readers.base import Reader
from wdsflow.records.shard_counts import read_counts
from wdsflow.scan.evidence import Evidence, Level, ScanOptions, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.scan_pool import scan_shards
from wdsflow.shards.samples.tar_damage import is_harmless
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Range, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.urls import expand_existing

from ..check_options import CheckOptions, SampledOptions, WrongSampling
from ..chosen_readers import readers_of
from ..verdicts.judge import judge
from .binomial_test import decide, interim_looks, upper_bound
from .sampled_report import SampledReport

_LEAST_CONFIDENCE = 0.5


def sampled_check(
    urls: str | Sequence[str], sampled: SampledOptions, options: CheckOptions
) -> SampledReport:
    """Draw and judge random samples until the lost share is known to be below or above a limit.

    Samples of a shard that cannot be read, or whose tar is damaged, count as lost.

    Args:
        urls: shards, as for ``check``; no pipes.
        sampled: confidence, between 0.5 and 1; seed.
        options: readers, level, the share that may be lost (``max_loss``, between 0 and 1), and
            where to work.

    Raises:
        NoShards, UnknownReader: unknown names.
        WrongSampling: the confidence or the limit is out of range, or a shard is a pipe.
        EngineError: no cluster.
    """
    confidence = sampled.confidence or 0.0
    limit = options.max_loss
    if not (_LEAST_CONFIDENCE <= confidence < 1 and 0 < limit < 1):
        raise WrongSampling(
            "a check of random samples needs --confidence from 50% to below 100%, and --max-loss above 0"
        )
    shards = _readable_in_parts(urls)
    # Few samples are read, so that each can be decoded.
    level: Level = "full" if options.level == "auto" else options.level
    readers, plan = readers_of(options, level, shards)
    weights = _listed_counts(shards)
    # An earlier call may have seen other shards there.
    _samples_of.cache_clear()
    report = SampledReport(
        readers=[reader.title for reader in readers],
        confidence=confidence,
        max_loss=limit,
        shards=len(shards),
        by_samples=bool(weights),
        level=level,
    )
    rng = random.Random(sampled.seed)
    drawn_shards = set[Shard]()
    # The probability with which a check may come to the wrong outcome.
    error = 1 - confidence
    for look, (draws, may_prove) in enumerate(interim_looks(error, limit), 1):
        # Of all looks together at most ``error``: 1/2 + 1/6 + 1/12 + ... is 1.
        may_refute = error / (look * (look + 1))
        drawn = sorted(rng.choices(shards, weights, k=draws - report.draws))
        drawn_shards.update(drawn)
        for sample in _scan_drawn_samples(drawn, rng, plan, options):
            reason = _why_lost(sample, level, readers)
            if reason:
                report.lost.append((sample.url, reason))
        lost = len(report.lost)
        report.draws = draws
        report.drawn_shards = len(drawn_shards)
        report.outcome = decide(lost, draws, limit, may_prove, may_refute)
        report.bound = upper_bound(lost, draws, may_prove) if may_prove else 1.0
        if report.outcome != "undecided":
            break
    return report


def _readable_in_parts(urls: str | Sequence[str]) -> list[Shard]:
    """Return the shards of a check.

    Raises WrongSampling if a sample of one cannot be read alone.
    """
    shards = expand_existing(urls, allow_pipe=True)
    if any(url.is_pipe for url in shards):
        raise WrongSampling(
            "random samples cannot be taken from the output of a command: name the shards as files or urls"
        )
    return shards


def scan_drawn(url: Shard, options: ScanOptions, *, position: float) -> ShardEvidence:
    """Scan one sample of a shard as if it were alone.

    ``position`` is from 0, the first sample, to below 1, the last.
    """
    samples = _samples_of(url)
    if samples.damage or not samples.ranges:
        shard = ShardEvidence(url)
        shard.fail("io", samples.damage or "it has no sample")
        return shard
    sample = samples.ranges[int(position * len(samples.ranges))]
    pieces = with_headers([sample], samples.headers)
    return scan_shard(url, options, view=lambda source: view_of(source, pieces))


def _scan_drawn_samples(
    drawn: Sequence[Shard], rng: random.Random, plan: ScanOptions, options: CheckOptions
) -> list[ShardEvidence]:
    """Return the evidence of one sample at random of each shard."""
    scans = [partial(scan_drawn, position=rng.random()) for _ in drawn]
    return scan_shards(
        drawn,
        plan,
        options.jobs,
        scan_functions=scans,
        engine=options.engine,
        address=options.address,
    )


def _why_lost(sample: ShardEvidence, level: Level, readers: Sequence[Reader]) -> str:
    """Return why the first reader that loses a sample does so; "" if none loses it."""
    evidence = Evidence(level, [sample])
    for reader in readers:
        verdict = judge(evidence, reader)
        if verdict.usable:
            continue
        if sample.error_detail:
            return sample.error_detail
        for reason in verdict.reasons:
            if reason.message:
                return reason.message
        return verdict.outcome
    return ""


class _ShardSamples(NamedTuple):
    """The samples of a shard, as ranges of its bytes."""

    ranges: list[Range]
    # Global headers, which hold for all of them.
    headers: list[Range]
    # "" if none.
    damage: str


# Draws come in the order of shards.
@lru_cache(2)
def _samples_of(url: Shard) -> _ShardSamples:
    try:
        with open_source(url) as source:
            samples = Samples(source, contents=False, keep=False)
            ranges = [(sample.start, sample.end) for sample in samples]
    except SourceError as error:
        return _ShardSamples([], [], str(error))
    damage = ""
    for text in samples.damage:
        if not is_harmless(text):
            damage = text
            break
    return _ShardSamples(ranges, samples.headers, damage)


def _listed_counts(urls: Sequence[Shard]) -> list[int] | None:
    """Return the number of samples of each shard, from ``sizes.json`` next to it.

    None unless all shards are listed.
    """
    folders: dict[str, dict[str, int]] = {}
    counts = []
    for url in urls:
        folder, name = os.path.split(url)
        if url.path is None:
            return None
        if folder not in folders:
            folders[folder] = read_counts(Path(folder or "."))
        counts.append(folders[folder].get(name, 0))
    return counts if all(counts) else None
