"""Scans the part of shards that a ledger keeps, as if it was a shard of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from wdsflow.filtering.deciding.ledger_subset import LedgerSubset, ShardLedger
from wdsflow.filtering.ledger.ledger_row import LedgerError, MissingScore
from wdsflow.pieces.tar_view import view_of
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.scan_pool import Progress, scan_shards
from wdsflow.shards.source.base import SourceError
from wdsflow.training.feed.subset import explained, kept_text, nothing_kept
from wdsflow.training.feed_options import FeedOptions

LEDGER = "ledger"  # error of a shard whose ledger does not fit


@dataclass(frozen=True)
class KeptScan:
    """Scans a shard in any process. A shard of which nothing is kept has no samples and no error."""

    shard: ShardLedger

    def __call__(self, url: str, options: ScanOptions) -> ShardEvidence:
        """Return the evidence of what is kept; of a ledger that does not fit, only the error."""
        try:
            kept = self.shard.kept()
        except LedgerError as error:
            return ShardEvidence(url, error=LEDGER, error_detail=str(error), error_fix=getattr(error, "call", ""))
        except SourceError:
            return scan_shard(url, options)  # reports it
        if not kept.kept:
            return ShardEvidence(url)
        return scan_shard(url, options, view=lambda source: view_of(source, kept.ranges))


def scan_kept(
    every: Sequence[str],
    some: Sequence[str],
    asked: ScanOptions,
    options: FeedOptions,
    data: str,
    told: Progress | None,
    *,
    dry_run: bool = False,
) -> tuple[list[ShardEvidence], str]:
    """Scan what a ledger keeps of some shards; return the evidence of those with any, and how much it is.

    Args:
        every: all shards of the run: a predicate may compare the samples of all of them.
        some: those to scan.
        asked: how deep to look.
        options: settings of the feed, with ``ledger`` and ``where``.
        data: the shards as the user named them.
        told: called after each shard.
        dry_run: the command that is advised is one, too.

    Raises:
        SubsetError: a ledger does not fit, or nothing is kept (NothingKept).
    """
    assert options.ledger is not None
    assert options.where is not None
    flags = ["--dry-run"] if dry_run else []
    try:
        ledger = LedgerSubset.of(options.ledger, options.where)
        shards = {shard.url: shard for shard in ledger.shards(list(every) if ledger.compares else list(some))}
        samples = ledger.samples(some)
    except (LedgerError, SourceError) as error:
        raise explained(error, options, data, *flags) from None
    found = scan_shards(some, asked, progress=told, how=[KeptScan(shards[url]) for url in some])
    for shard in found:
        if shard.error == LEDGER:
            lacks, what = shard.error_fix, shard.error_detail
            raise explained(MissingScore(lacks, what) if lacks else LedgerError(what), options, data, *flags)
    left = [shard for shard in found if shard.error is not None or shard.members]
    if not left:
        raise nothing_kept(options, data, samples, len(some))
    return left, kept_text(sum(shard.samples for shard in left), samples, len(left), len(some))
