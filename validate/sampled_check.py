"""Proves from random samples that few samples are lost, without reading the others.

**Draws.** Each draw takes a shard, and in it a sample, at random, independently of all other draws
and with replacement. So draws are independent although the samples of one shard are alike, and the
number of lost ones among n draws is binomial with p, the share of lost samples: of all samples if
``sizes.json`` lists every shard (shards are drawn by their samples), otherwise the mean over shards
of the share in each (all shards are drawn alike).

**Test.** After a planned number of draws, at each look, "p > max_loss" is rejected if P(X <= lost)
under p = max_loss is at most the share of the error that this look may spend: the exact bound of
Clopper and Pearson (Biometrika 26, 1934). The shares of all looks add up to at most 1 - confidence,
so that repeated looks do not increase the error (Bonferroni; alpha spending, Lan and DeMets,
Biometrika 70, 1983). "p <= max_loss" is rejected in the same way, with an error of its own.
"""

import math
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

from wdsflow.pieces.pieces import with_headers
from wdsflow.pieces.tar_view import view_of
from wdsflow.records.shard_counts import read_counts
from wdsflow.scan.evidence import Evidence, Level, ScanOptions, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.scan_pool import scan_shards
from wdsflow.shards.samples.tar_samples import Samples, is_harmless
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Range, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.urls import expand_existing
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .check_options import CheckOptions, SampledOptions, WrongSampling
from .run_check import readers_of
from .verdicts.judge import judge

Outcome = Literal["proven", "refuted", "undecided"]
# Draws before the first look, which can only refute.
_FIRST = 32
# Times as many draws as a set without lost samples needs: then it stays undecided.
_LAST = 16


@dataclass
class SampledReport:
    """The result. ``bound``: p is at most this, with the confidence of the check; ``lost``: (shard, reason) of lost samples."""

    outcome: Outcome = "undecided"
    readers: list[str] = field(default_factory=list)
    confidence: float = 0.0
    max_loss: float = 0.0
    draws: int = 0
    lost: list[tuple[str, str]] = field(default_factory=list)
    bound: float = 1.0
    shards: int = 0
    drawn_shards: int = 0
    # Shards were drawn by the number of their samples.
    by_samples: bool = False
    level: str = "headers"

    def lines(self) -> Iterator[str]:
        """Yield the report: what is guaranteed, and what is not."""
        more = {
            "proven": "at most",
            "refuted": "more than",
            "undecided": "not decided whether at most",
        }[self.outcome]
        readers = ", ".join(self.readers)
        yield f"{self.outcome}: {more} {self.max_loss:.4g} of the samples are lost by {readers}, at confidence {self.confidence:.4g}"
        drawn = f"{self.draws:,} random samples of {self.drawn_shards:,} of {how_many(self.shards, 'shard')}"
        at_most = f"; by them the share is at most {self.bound:.4g}" if self.bound < 1 else ""
        yield f"  {drawn}, {len(self.lost):,} lost{at_most}"
        which = (
            "all samples, as sizes.json counts them"
            if self.by_samples
            else "each shard, averaged over the shards"
        )
        yield f"  the share is that of {which}; if it is above {self.max_loss:.4g}, at most {1 - self.confidence:.4g} of such checks prove the opposite"
        yield f"  samples were judged individually, at level {self.level}; not judged: the set as a whole, such as repeated keys,"
        yield "  types of columns, missing shards and the forecast of a training run; for these, leave out --confidence"
        yield from (
            f"  lost: {escape(shard, 300)}: {escape(reason, 300)}"
            for shard, reason in self.lost[:10]
        )


def sampled_check(
    urls: str | Sequence[str], sampled: SampledOptions, options: CheckOptions
) -> SampledReport:
    """Draw and judge random samples until the share of lost ones is known to be below or above a limit.

    Samples of a shard that cannot be read, or whose tar is damaged, count as lost.

    Args:
        urls: shards, as for ``check``; no pipes.
        sampled: confidence, between 0.5 and 1; seed.
        options: readers, level, the share that may be lost (``max_loss``, between 0 and 1), and where to work.

    Raises:
        NoShards, UnknownReader: unknown names.
        WrongSampling: the confidence or the limit is out of range, or a shard is a pipe.
        EngineError: no cluster.
    """
    confidence, limit = sampled.confidence or 0.0, options.max_loss
    if not (0.5 <= confidence < 1 and 0 < limit < 1):
        raise WrongSampling(
            "a check of random samples needs --confidence from 50% to below 100%, and --max-loss above 0"
        )
    found = expand_existing(urls, allow_pipe=True)
    if any(url.is_pipe for url in found):
        raise WrongSampling(
            "random samples cannot be taken from the output of a command: name the shards as files or urls"
        )
    # Few samples are read, so that each can be decoded.
    level: Level = "full" if options.level == "auto" else options.level
    readers, plan = readers_of(options, level, found)
    weights = _listed(found)
    # An earlier call may have seen other shards there.
    _samples_of.cache_clear()
    titles = [reader.title for reader in readers]
    report = SampledReport(
        "undecided", titles, confidence, limit, shards=len(found), by_samples=bool(weights)
    )
    report.level, chance, drawn = level, random.Random(sampled.seed), set[str]()
    for look, (draws, may_err) in enumerate(looks(1 - confidence, limit), 1):
        chosen = sorted(chance.choices(found, weights, k=draws - report.draws))
        ways = [partial(scan_drawn, place=chance.random()) for _ in chosen]
        for shard in scan_shards(
            chosen, plan, options.jobs, how=ways, engine=options.engine, address=options.address
        ):
            verdicts = [judge(Evidence(level, [shard]), reader) for reader in readers]
            if lossy := next((each for each in verdicts if not each.usable), None):
                reasons = [
                    shard.error_detail,
                    *(each.message for each in lossy.reasons),
                    lossy.outcome,
                ]
                report.lost.append((shard.url, next(filter(None, reasons))))
        drawn.update(chosen)
        report.draws, report.drawn_shards = draws, len(drawn)
        report.outcome = decide(
            len(report.lost), draws, limit, may_err, (1 - confidence) / (look * (look + 1))
        )
        report.bound = upper_bound(len(report.lost), draws, may_err) if may_err else 1.0
        if report.outcome != "undecided":
            break
    return report


def looks(error: float, limit: float) -> Iterator[tuple[int, float]]:
    """Yield the numbers of draws after which the test looks, and the error that it may spend on "proven" there.

    The first look that can prove is the first at which a set without a lost sample passes. The
    errors are error / 2, error / 4 and so on.

    >>> list(looks(0.01, 0.1))[:4]
    [(32, 0.0), (51, 0.005), (102, 0.0025), (204, 0.00125)]
    """
    first = math.ceil(math.log(error / 2) / math.log1p(-limit))
    draws = _FIRST
    while draws < first:
        yield draws, 0.0
        draws *= 2
    for doubling in range(_LAST.bit_length()):
        yield first << doubling, error / (2 << doubling)


def decide(lost: int, draws: int, limit: float, may_prove: float, may_refute: float) -> Outcome:
    """Return the outcome of a look; the last two arguments are the errors that it may spend."""
    if may_prove and at_most(lost, draws, limit) <= may_prove:
        return "proven"
    return "refuted" if lost and 1 - at_most(lost - 1, draws, limit) <= may_refute else "undecided"


def at_most(lost: int, draws: int, share: float) -> float:
    """Return the probability of at most ``lost`` lost samples among the draws, if ``share`` of all are lost."""
    if lost >= draws or share <= 0:
        return 1.0
    if share >= 1:
        return 0.0
    fixed, odds = math.lgamma(draws + 1), math.log(share) - math.log1p(-share)
    terms = (
        fixed - math.lgamma(k + 1) - math.lgamma(draws - k + 1) + k * odds for k in range(lost + 1)
    )
    return min(1.0, math.fsum(math.exp(term + draws * math.log1p(-share)) for term in terms))


def upper_bound(lost: int, draws: int, error: float) -> float:
    """Return the bound of Clopper and Pearson: the largest share under which so few lost samples have this probability."""
    low, high = lost / draws, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(lost, draws, middle) > error else (low, middle)
    return high


def scan_drawn(url: Shard, options: ScanOptions, *, place: float) -> ShardEvidence:
    """Scan one sample of a shard as if it were alone; ``place``: from 0, the first, to below 1, the last."""
    samples, headers, trouble = _samples_of(url)
    if trouble or not samples:
        shard = ShardEvidence(url)
        shard.fail("io", trouble or "it has no sample")
        return shard
    pieces = with_headers([samples[int(place * len(samples))]], headers)
    return scan_shard(url, options, view=lambda source: view_of(source, pieces))


@lru_cache(2)  # draws come in the order of shards
def _samples_of(url: Shard) -> tuple[list[Range], list[Range], str]:
    """Return the ranges of the samples of a shard, the global headers, and its damage."""
    try:
        with open_source(url) as source:
            found = Samples(source, contents=False, keep=False)
            ranges = [(sample.start, sample.end) for sample in found]
    except SourceError as error:
        return [], [], str(error)
    return ranges, found.headers, next((each for each in found.damage if not is_harmless(each)), "")


def _listed(urls: Sequence[Shard]) -> list[int] | None:
    """Return how many samples ``sizes.json`` next to the shards lists for each; None if it does not list all of them."""
    local = dict.fromkeys(os.path.dirname(url.path) for url in urls if url.path is not None)
    folders = {folder: read_counts(Path(folder or ".")) for folder in local}
    counts = [folders.get(os.path.dirname(url), {}).get(os.path.basename(url), 0) for url in urls]
    return counts if all(counts) else None
