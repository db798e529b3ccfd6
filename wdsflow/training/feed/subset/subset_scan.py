"""Scans the samples of shards that a ledger keeps, for the check before a training."""

from collections.abc import Sequence
from dataclasses import dataclass

from wdsflow.filtering.deciding.ledger_subset import LedgerSubset, ShardLedger
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, MissingScore
from wdsflow.joining.joined_fields import JoinedFields
from wdsflow.joining.joined_scan import JoinedScan
from wdsflow.pieces.view_source import view_of
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.scan_pool import Progress, scan_shards
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.training.feed_options import FeedOptions

from .subset_advice import kept_text, nothing_kept_error, subset_error

# The error of a shard whose ledger does not match.
_LEDGER = "ledger"


@dataclass(frozen=True)
class _KeptScan:
    """Scans the kept part of a shard, in any process.

    If nothing is kept, there are no samples and no error.
    """

    shard: ShardLedger
    join: JoinedFields | None = None

    def __call__(self, url: Shard, options: ScanOptions) -> ShardEvidence:
        try:
            kept = self.shard.kept()
        except LedgerError as error:
            return ShardEvidence(
                url, error=_LEDGER, error_detail=str(error), error_fix=getattr(error, "call", "")
            )
        except SourceError:
            # Reports the error.
            return scan_shard(url, options)
        if not kept.kept:
            return ShardEvidence(url)

        def view(source: Source) -> Source:
            return view_of(source, kept.ranges)

        if self.join is not None:
            return JoinedScan(self.join, view)(url, options)
        return scan_shard(url, options, view=view)


def scan_kept(
    every: Sequence[Shard],
    some: Sequence[Shard],
    scan_options: ScanOptions,
    options: FeedOptions,
    data: str,
    progress: Progress | None,
    join: JoinedFields | None = None,
) -> tuple[list[ShardEvidence], str]:
    """Scan the kept samples of shards; return evidence, and a line on their share.

    Only shards with kept samples or an error are included.

    Args:
        every: all shards of the run: a predicate may compare the samples of all of them.
        some: those to scan.
        scan_options: the depth of the scan.
        options: settings of the feed, with ``ledger`` and ``where``.
        data: the shards as the user named them.
        progress: called after each shard.
        join: gives samples fields of a table.

    Raises:
        SubsetError: a ledger does not match its shard, or nothing is kept (NothingKept).
    """
    try:
        ledger = LedgerSubset.of(str(options.ledger), str(options.where))
        shards = {
            shard.url: shard
            for shard in ledger.shards(list(every) if ledger.compares else list(some))
        }
        samples = ledger.samples(some)
    except (LedgerError, SourceError) as error:
        raise subset_error(error, options, data) from None
    scanned = scan_shards(
        some,
        scan_options,
        progress=progress,
        scan_functions=[
            _KeptScan(shards[url], None if join is None else join.for_shard(url)) for url in some
        ],
    )
    for shard in scanned:
        if shard.error == _LEDGER:
            missing_score, what = shard.error_fix, shard.error_detail
            raise subset_error(
                MissingScore(missing_score, what) if missing_score else LedgerError(what),
                options,
                data,
            )
    left = [shard for shard in scanned if shard.error is not None or shard.members]
    if not left:
        raise nothing_kept_error(options, data, samples, len(some))
    return left, kept_text(sum(shard.samples for shard in left), samples, len(left), len(some))
