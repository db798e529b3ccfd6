"""Training on the samples that a ledger keeps: which shards have some, what is read of them."""

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from wdsflow.filtering.deciding.ledger_subset import KeptSamples, LedgerSubset, ShardLedger
from wdsflow.filtering.ledger.ledger_metadata import LedgerError
from wdsflow.pieces.view_source import view_of
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.ranks import JobRank, divide_among_ranks

from .subset_advice import kept_text, nothing_kept_error, subset_error

# Sample positions held for later passes, 8 bytes each.
_HELD = 1 << 22
_log = logging.getLogger("wdsflow.training")


class _Share(NamedTuple):
    """The kept share of a shard, as ranks exchange it.

    ``kept`` is -1 if the shard cannot be read now.
    """

    kept: int
    digest: bytes
    error: str = ""


class Subset:
    """Samples that a predicate keeps by the scores in ledgers.

    ``urls``: the shards to train on, without those of which nothing is kept, as with ``filter``;
    ``weights`` belong to them. ``digest``: of all kept samples. Raises SubsetError.
    """

    def __init__(
        self,
        urls: Sequence[Shard],
        weights: Sequence[float] | None,
        job_rank: JobRank,
        options: FeedOptions,
        data: str,
    ) -> None:
        self._options = options
        self._data = data
        # Kept samples of the shards that were read last, with the state of the file then.
        self._held: OrderedDict[str, tuple[tuple[int, ...], KeptSamples]] = OrderedDict()
        # Sample positions that are held.
        self._size = 0
        self._lock = threading.Lock()
        distinct_urls = list(dict.fromkeys(urls))
        try:
            ledger = LedgerSubset.of(str(options.ledger), str(options.where))
            self._shards = {shard.url: shard for shard in ledger.shards(distinct_urls)}
        except (LedgerError, SourceError) as error:
            raise subset_error(error, options, data) from None
        self.where = ledger.where
        if ledger.compares:
            # Each rank needs the samples of all shards.
            job_rank = JobRank(0, 1)
        shares = self._shares(urls, job_rank)
        numbers = [number for number, share in enumerate(shares) if share.kept]
        kept = sum(max(0, share.kept) for share in shares)
        samples = ledger.samples(urls)
        if not numbers:
            raise nothing_kept_error(options, data, samples, len(urls))
        _log.info("%s", kept_text(kept, samples, len(numbers), len(urls)))
        self.urls = [urls[number] for number in numbers]
        self.weights = None if weights is None else [weights[number] for number in numbers]
        digests = b"".join(share.digest for share in shares)
        self.digest = blake2b(digests, digest_size=8).hexdigest()

    def view(self, url: Shard, source: Source) -> Source:
        """Return the part of a shard that is kept.

        Raises SubsetError if the shard has changed, and SourceError.
        """
        state = _state_of(source)
        with self._lock:
            held_state, kept = self._held.get(url, (None, None))
            if kept is not None and held_state == state:
                self._held.move_to_end(url)
                return view_of(source, kept.ranges)
        try:
            kept = self._shards[url].kept()
        except LedgerError as error:
            raise subset_error(error, self._options, self._data) from None
        self._hold(url, state, kept)
        return view_of(source, kept.ranges)

    def _hold(self, url: Shard, state: tuple[int, ...], kept: KeptSamples) -> None:
        """Hold the kept samples of a shard in memory.

        Those of the least recently used shards are released.
        """
        with self._lock:
            _, earlier = self._held.pop(url, (None, None))
            if earlier is not None:
                self._size -= len(earlier.offsets)
            self._held[url] = state, kept
            self._size += len(kept.offsets)
            while self._size > _HELD and len(self._held) > 1:
                _, (_, evicted) = self._held.popitem(last=False)
                self._size -= len(evicted.offsets)

    def _shares(self, urls: Sequence[Shard], job_rank: JobRank) -> list[_Share]:
        """Return the kept share of each shard.

        The ranks divide the work. Raises SubsetError, on all ranks.
        """

        def share(shard: ShardLedger) -> _Share:
            try:
                kept = shard.kept()
            except SourceError:
                # As without a ledger: reported when it is read.
                return _Share(-1, b"")
            except LedgerError as error:
                return _Share(0, b"", str(error))
            return _Share(kept.kept, kept.digest)

        def read(numbers: Iterable[int]) -> dict[int, _Share]:
            return {number: share(self._shards[urls[number]]) for number in numbers}

        shares = divide_among_ranks(len(urls), job_rank, read)
        for kept_share in shares:
            if kept_share.error:
                raise subset_error(LedgerError(kept_share.error), self._options, self._data)
        return shares


def _state_of(source: Source) -> tuple[int, ...]:
    """Return what changes when a shard is written again: its size and, of a file, its time."""
    if source.fd < 0:
        return (source.size or 0,)
    status = os.fstat(source.fd)
    return (status.st_size, status.st_mtime_ns)
