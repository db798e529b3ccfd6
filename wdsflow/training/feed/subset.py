"""Training on the samples that a ledger keeps: the shards that have some, and the part of each shard that is read."""

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from wdsflow.filtering.deciding.ledger_subset import KeptSamples, LedgerSubset, ShardLedger, StagedLedger, score_command
from wdsflow.filtering.ledger.ledger_row import LedgerError
from wdsflow.pieces.tar_view import view_of
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.text.shell import command as join
from wdsflow.text.shell import quote_path
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions, NothingKept, SubsetError
from wdsflow.training.ranks import RankPlace, shared_out
from wdsflow.training.stalls.field_fixes import command

_HELD = 1 << 22  # places held for later passes, 8 bytes each
_log = logging.getLogger("wdsflow.training")


class _Share(NamedTuple):
    """What is kept of one shard, as ranks tell each other; ``kept`` is -1 if the shard cannot be read now."""

    kept: int
    digest: bytes
    error: str = ""


class Subset:
    """Samples that a predicate keeps by the scores in ledgers.

    ``urls``: the shards to train on, without those of which nothing is kept, as ``cut`` writes none for them;
    ``weights`` belong to them. ``digest``: of all kept samples. Raises SubsetError.
    """

    def __init__(
        self, urls: Sequence[str], weights: Sequence[float] | None, place: RankPlace, options: FeedOptions, data: str
    ) -> None:
        assert options.ledger is not None
        assert options.where is not None
        self._options, self._data = options, data
        self._held: OrderedDict[str, tuple[tuple[int, ...], KeptSamples]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        try:
            ledger = LedgerSubset.of(options.ledger, options.where)
            self._shards = {shard.url: shard for shard in ledger.shards(list(dict.fromkeys(urls)))}
        except (LedgerError, SourceError) as error:
            raise explained(error, options, data) from None
        self.where = ledger.where
        found = self._shares(urls, RankPlace(0, 1) if ledger.compares else place)
        taken = [number for number, share in enumerate(found) if share.kept]
        kept, samples = sum(max(0, share.kept) for share in found), ledger.samples(urls)
        if not taken:
            raise nothing_kept(options, data, samples, len(urls))
        _log.info("%s", kept_text(kept, samples, len(taken), len(urls)))
        self.urls = [urls[number] for number in taken]
        self.weights = None if weights is None else [weights[number] for number in taken]
        self.digest = blake2b(b"".join(share.digest for share in found), digest_size=8).hexdigest()

    def view(self, url: str, source: Source) -> Source:
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
            raise explained(error, self._options, self._data) from None
        self._hold(url, stamp, kept)
        return view_of(source, kept.ranges)

    def _hold(self, url: str, stamp: tuple[int, ...], kept: KeptSamples) -> None:
        with self._lock:
            gone = self._held.pop(url, None)
            self._size += len(kept.places) - (len(gone[1].places) if gone else 0)
            self._held[url] = stamp, kept
            while self._size > _HELD and len(self._held) > 1:
                _, (_, old) = self._held.popitem(last=False)
                self._size -= len(old.places)

    def _shares(self, urls: Sequence[str], place: RankPlace) -> list[_Share]:
        """Return what is kept of each shard; ranks share the work. Raises SubsetError, on all ranks."""

        def read(numbers: Iterable[int]) -> dict[int, _Share]:
            return {number: _share(self._shards[urls[number]]) for number in numbers}

        found = shared_out(len(urls), place, read)
        if error := next((share.error for share in found if share.error), ""):
            raise explained(LedgerError(error), self._options, self._data)
        return found


def explained(error: Exception, options: FeedOptions, data: str, *flags: str) -> SubsetError:
    """Return an error that says what to do. ``data``: the shards as the user named them; ``flags``: further ones typed."""
    return SubsetError("\n  ".join([str(error), *subset_fixes(options, data, error, *flags)]))


def subset_fixes(options: FeedOptions, data: str, error: Exception, *flags: str) -> list[str]:
    """Return what to do where a ledger does not serve; each line ends with a command. ``flags``: further ones typed."""
    if options.ledger is None or options.where is None or not isinstance(error, LedgerError):
        return []
    urls = data.split("::") if data else ["SHARDS"]
    if isinstance(error, StagedLedger):
        return [f"to write the samples that it keeps: {_cut(options, urls)}"]
    score, new = score_command(urls, options.ledger, options.where)
    lacks = getattr(error, "call", "") or "what it needs"
    return [f"to compute {lacks}: {score}", f"then: {command(options, *flags, ledger=str(new))}"]


def nothing_kept(options: FeedOptions, data: str, samples: int, shards: int) -> NothingKept:
    """Return the error where a predicate keeps no sample."""
    lost = f"{options.where} keeps none of {how_many(samples, 'sample')} in {how_many(shards, 'shard')}"
    return NothingKept(f"{lost}\n  {to_see_terms(options, data)}")


def to_see_terms(options: FeedOptions, data: str) -> str:
    """Return what to do where a predicate keeps too little; it ends with a command."""
    urls = data.split("::") if data else ["SHARDS"]
    return f"to see which term drops how many: {_cut(options, urls)} --dry-run"


def kept_text(kept: int, samples: int, with_some: int, shards: int) -> str:
    """Return how much of shards is kept.

    >>> kept_text(30, 100, 4, 5)
    'the ledger keeps 30 of 100 samples (30.0%), in 4 of 5 shards'
    """
    share = f"{kept / samples:.1%}" if samples else "0%"
    where = how_many(shards, "shard") if with_some == shards else f"{with_some:,} of {how_many(shards, 'shard')}"
    return f"the ledger keeps {kept:,} of {how_many(samples, 'sample')} ({share}), in {where}"


def _cut(options: FeedOptions, urls: Sequence[str]) -> str:
    assert options.ledger is not None
    new = f"{options.ledger.rstrip('/')}-cut"
    shown = " ".join(map(quote_path, urls))
    return (
        f"wdsflow cut {shown} -o {quote_path(new)} {join(['--ledger', options.ledger, '--where', options.where or ''])}"
    )


def _share(shard: ShardLedger) -> _Share:
    try:
        kept = shard.kept()
    except SourceError:  # as without a ledger: it is reported when it is read
        return _Share(-1, b"")
    except LedgerError as error:
        return _Share(0, b"", str(error))
    return _Share(kept.kept, kept.digest)
