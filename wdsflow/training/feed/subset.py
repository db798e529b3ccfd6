"""Training on the samples that a ledger keeps: the shards that have some, and the part of each shard that is read."""

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from wdsflow.filtering.deciding.ledger_subset import (
    KeptSamples,
    LedgerSubset,
    ShardLedger,
    StagedLedger,
    measure_command,
)
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, MissingScore
from wdsflow.pieces.tar_view import view_of
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.scan_pool import Progress, scan_shards
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.text.shell import command as join
from wdsflow.text.shell import quote_path
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions, NothingKept, SubsetError
from wdsflow.training.ranks import RankPlace, shared_out
from wdsflow.training.stalls.field_fixes import command

_HELD = 1 << 22  # sample positions held for later passes, 8 bytes each
_LEDGER = "ledger"  # error of a shard whose ledger does not match
_log = logging.getLogger("wdsflow.training")


class _Share(NamedTuple):
    """How much of a shard is kept, as ranks exchange it; ``kept`` is -1 if the shard cannot be read now."""

    kept: int
    digest: bytes
    error: str = ""


class Subset:
    """Samples that a predicate keeps by the scores in ledgers.

    ``urls``: the shards to train on, without those of which nothing is kept, as with ``filter``; ``weights``
    belong to them. ``digest``: of all kept samples. Raises SubsetError.
    """

    def __init__(
        self, urls: Sequence[Shard], weights: Sequence[float] | None, place: RankPlace, options: FeedOptions, data: str
    ) -> None:
        self._options, self._data = options, data
        self._held: OrderedDict[str, tuple[tuple[int, ...], KeptSamples]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        try:
            ledger = _ledger(options)
            self._shards = {shard.url: shard for shard in ledger.shards(list(dict.fromkeys(urls)))}
        except (LedgerError, SourceError) as error:
            raise _explained(error, options, data) from None
        self.where = ledger.where
        found = self._shares(urls, RankPlace(0, 1) if ledger.compares else place)
        taken = [number for number, share in enumerate(found) if share.kept]
        kept, samples = sum(max(0, share.kept) for share in found), ledger.samples(urls)
        if not taken:
            raise _nothing_kept(options, data, samples, len(urls))
        _log.info("%s", kept_text(kept, samples, len(taken), len(urls)))
        self.urls = [urls[number] for number in taken]
        self.weights = None if weights is None else [weights[number] for number in taken]
        self.digest = blake2b(b"".join(share.digest for share in found), digest_size=8).hexdigest()

    def view(self, url: Shard, source: Source) -> Source:
        """Return the part of a shard that is kept. Raises SubsetError if the shard has changed, SourceError."""
        found = os.fstat(source.fd) if source.fd >= 0 else None
        stamp = (found.st_size, found.st_mtime_ns) if found is not None else (source.size or 0,)
        with self._lock:
            known = self._held.get(url)
            if known is not None and known[0] == stamp:
                self._held.move_to_end(url)
                return view_of(source, known[1].ranges)
        try:
            kept = self._shards[url].kept()
        except LedgerError as error:
            raise _explained(error, self._options, self._data) from None
        with self._lock:
            evicted = self._held.pop(url, None)
            self._size += len(kept.places) - (len(evicted[1].places) if evicted else 0)
            self._held[url] = stamp, kept
            while self._size > _HELD and len(self._held) > 1:
                _, (_, old) = self._held.popitem(last=False)
                self._size -= len(old.places)
        return view_of(source, kept.ranges)

    def _shares(self, urls: Sequence[Shard], place: RankPlace) -> list[_Share]:
        """Return the kept share of each shard; ranks share the work. Raises SubsetError, on all ranks."""

        def share(shard: ShardLedger) -> _Share:
            try:
                kept = shard.kept()
            except SourceError:  # as without a ledger: reported when it is read
                return _Share(-1, b"")
            except LedgerError as error:
                return _Share(0, b"", str(error))
            return _Share(kept.kept, kept.digest)

        def read(numbers: Iterable[int]) -> dict[int, _Share]:
            return {number: share(self._shards[urls[number]]) for number in numbers}

        found = shared_out(len(urls), place, read)
        if error := next((share.error for share in found if share.error), ""):
            raise _explained(LedgerError(error), self._options, self._data)
        return found


@dataclass(frozen=True)
class _KeptScan:
    """Scans the kept part of a shard, in any process. If nothing is kept, there are no samples and no error."""

    shard: ShardLedger

    def __call__(self, url: Shard, options: ScanOptions) -> ShardEvidence:
        try:
            kept = self.shard.kept()
        except LedgerError as error:
            return ShardEvidence(url, error=_LEDGER, error_detail=str(error), error_fix=getattr(error, "call", ""))
        except SourceError:
            return scan_shard(url, options)  # reports the error
        if not kept.kept:
            return ShardEvidence(url)
        return scan_shard(url, options, view=lambda source: view_of(source, kept.ranges))


def scan_kept(
    every: Sequence[Shard],
    some: Sequence[Shard],
    asked: ScanOptions,
    options: FeedOptions,
    data: str,
    progress: Progress | None,
) -> tuple[list[ShardEvidence], str]:
    """Scan the kept samples of some shards; return the evidence of the shards that have any, and a line on the share.

    Args:
        every: all shards of the run: a predicate may compare the samples of all of them.
        some: those to scan.
        asked: the depth of the scan.
        options: settings of the feed, with ``ledger`` and ``where``.
        data: the shards as the user named them.
        progress: called after each shard.

    Raises:
        SubsetError: a ledger does not match its shard, or nothing is kept (NothingKept).
    """
    try:
        ledger = _ledger(options)
        shards = {shard.url: shard for shard in ledger.shards(list(every) if ledger.compares else list(some))}
        samples = ledger.samples(some)
    except (LedgerError, SourceError) as error:
        raise _explained(error, options, data) from None
    found = scan_shards(some, asked, progress=progress, how=[_KeptScan(shards[url]) for url in some])
    for shard in found:
        if shard.error == _LEDGER:
            lacks, what = shard.error_fix, shard.error_detail
            raise _explained(MissingScore(lacks, what) if lacks else LedgerError(what), options, data)
    left = [shard for shard in found if shard.error is not None or shard.members]
    if not left:
        raise _nothing_kept(options, data, samples, len(some))
    return left, kept_text(sum(shard.samples for shard in left), samples, len(left), len(some))


def subset_fixes(options: FeedOptions, data: str, error: Exception) -> list[str]:
    """Return fixes for a ledger that cannot be used; each line ends with a command."""
    if options.ledger is None or options.where is None or not isinstance(error, LedgerError):
        return []
    urls = _urls(data)
    if isinstance(error, StagedLedger):
        return [f"to write the samples that it keeps: {_cut(options, urls)}"]
    score, new = measure_command(urls, options.ledger, options.where)
    lacks = getattr(error, "call", "") or "what it needs"
    return [f"to compute {lacks}: {score}", f"then: {command(options, ledger=str(new))}"]


def to_see_terms(options: FeedOptions, data: str) -> str:
    """Return a fix for a predicate that keeps too little; it ends with a command."""
    return f"to see which term drops how many: {_cut(options, _urls(data))} --dry-run"


def kept_text(kept: int, samples: int, with_some: int, shards: int) -> str:
    """Return a line on the kept share of shards.

    >>> kept_text(30, 100, 4, 5)
    'the ledger keeps 30 of 100 samples (30.0%), in 4 of 5 shards'
    """
    share = f"{kept / samples:.1%}" if samples else "0%"
    where = how_many(shards, "shard") if with_some == shards else f"{with_some:,} of {how_many(shards, 'shard')}"
    return f"the ledger keeps {kept:,} of {how_many(samples, 'sample')} ({share}), in {where}"


def _ledger(options: FeedOptions) -> LedgerSubset:
    assert options.ledger is not None
    assert options.where is not None
    return LedgerSubset.of(options.ledger, options.where)


def _explained(error: Exception, options: FeedOptions, data: str) -> SubsetError:
    return SubsetError("\n  ".join([str(error), *subset_fixes(options, data, error)]))


def _nothing_kept(options: FeedOptions, data: str, samples: int, shards: int) -> NothingKept:
    lost = f"{options.where} keeps none of {how_many(samples, 'sample')} in {how_many(shards, 'shard')}"
    return NothingKept(f"{lost}\n  {to_see_terms(options, data)}")


def _urls(data: str) -> list[str]:
    return data.split("::") if data else ["SHARDS"]


def _cut(options: FeedOptions, urls: Sequence[str]) -> str:
    assert options.ledger is not None
    new = f"{options.ledger.rstrip('/')}-kept"
    shown = " ".join(map(quote_path, urls))
    choice = join(["--ledger", options.ledger, "--where", options.where or ""])
    return f"wdsflow filter {shown} -o {quote_path(new)} {choice}"
