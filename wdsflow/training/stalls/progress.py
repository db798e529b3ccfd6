"""Progress of a feed: status lines, a table at the end of an epoch, and metrics files."""

import logging
import time
from dataclasses import replace
from math import inf
from typing import NamedTuple

from wdsflow.shards.cache.figures import CacheFigures
from wdsflow.training.feed_options import FeedOptions

from .loss_tally import LossTally, log_or_print
from .metrics_file import Metrics
from .progress_facts import Facts
from .progress_text import epoch_table, loss_text, speed_text

# Seconds, without status lines.
_METRICS_EVERY = 10.0
# Seconds without a batch that are worth a warning, on any rank.
_LONG_WAIT = 30.0
# Shares that are worth a warning.
_MUCH_LOST, _MUCH_WAITED = 0.01, 0.1


class _Moment(NamedTuple):
    """From when on rates are computed."""

    time: float
    # Of the epoch.
    samples: int
    # Seconds that training waited, since the feed began.
    waited: float


class Progress:
    """Status lines, the table and metrics of one rank.

    Rank 0 logs. The others log one line at the end of an epoch, and only if they lost one sample in
    a hundred, found a damaged shard, or training waited for them for a tenth of the time: the
    slowest rank sets the pace of all. Any rank logs if no batch came for half a minute. With
    ``status_every=0`` only such losses and damage are logged. ``cache``: the figures of the cache,
    which other threads change.
    """

    def __init__(
        self,
        options: FeedOptions,
        *,
        rank: int = 0,
        world_size: int = 1,
        cache: CacheFigures | None = None,
    ) -> None:
        self.rank = rank
        self.world_size = world_size
        # Of the cache, now and when the epoch began.
        self._cache = cache
        self._cache_before = cache
        self._quiet = not options.status_every
        self._speaks = rank == 0 and not self._quiet
        self._every = options.status_every or _METRICS_EVERY
        self._metrics: Metrics | None = None
        if options.metrics:
            self._metrics = Metrics(options.metrics, rank=rank, world_size=world_size)
        # When the next status is due.
        self._due = inf
        # Of this epoch.
        self._epoch = 0
        self._num_batches = 0
        self._batch = 0
        self._samples = 0
        # Since the feed began.
        self._batches = 0
        # When the epoch began, and when the last line was written.
        self._first = _Moment(0.0, 0, 0.0)
        self._last = self._first
        # When the epoch began.
        self._before = LossTally()
        # Seconds without a batch after which a line is logged.
        self._first_wait = _LONG_WAIT
        if self._quiet:
            self._first_wait = inf
        elif self._speaks:
            self._first_wait = min(self._every, _LONG_WAIT)
        self._next_wait = self._first_wait

    def begin(self, epoch: int, num_batches: int, tally: LossTally, waited: float) -> None:
        """Begin an epoch.

        ``tally`` and ``waited`` (seconds) are of the whole run, in the other methods too.
        """
        self._epoch = epoch
        self._num_batches = num_batches
        self._batch = 0
        self._samples = 0
        self._before = tally.copy()
        self._cache_before = self._cache and replace(self._cache)
        self._first = _Moment(time.monotonic(), 0, waited)
        self._last = self._first
        self._due = inf
        if self._speaks or self._metrics:
            self._due = self._first.time + self._every
        # Report now if the file cannot be written.
        if self._metrics:
            self._metrics.write(self._facts(self._first, tally, waited, done=False))

    def step(self, samples: int, batch: int, tally: LossTally, waited: float) -> None:
        """Count a batch of ``samples`` samples, and log if it is time.

        ``batch`` is its number in its epoch, from 1.
        """
        self._samples += samples
        self._batch = batch
        self._batches += 1
        self._next_wait = self._first_wait
        now = time.monotonic()
        if now < self._due:
            return
        facts = self._status(now, tally, waited)
        if self._speaks:
            log_or_print(logging.INFO, self._line(facts))

    def wait(self, seconds: float, tally: LossTally, waited: float) -> None:
        """Log periodically while no batch has come for ``seconds``; ``waited`` excludes them."""
        now = time.monotonic()
        if now >= self._due and self._metrics:
            self._status(now, tally, waited + seconds)
        if seconds < self._next_wait:
            return
        self._next_wait = 2 * seconds
        facts = self._facts(self._first, tally, waited + seconds, done=False)
        level = logging.WARNING if seconds >= _LONG_WAIT else logging.INFO
        log_or_print(
            level,
            f"{self._position(facts)}: no batch for {seconds:,.0f} s, {loss_text(facts.tally)}",
        )

    def end(self, tally: LossTally, waited: float) -> None:
        """End an epoch."""
        self._due = inf
        facts = self._facts(self._first, tally, waited, done=True)
        lost_many = facts.tally.lost >= max(1, _MUCH_LOST * facts.tally.seen)
        is_bad = lost_many or bool(facts.tally.damage)
        is_slow = bool(self.rank) and not self._quiet and facts.share >= _MUCH_WAITED
        level = logging.WARNING if is_bad else logging.INFO
        if self._speaks:
            log_or_print(level, "\n".join(epoch_table(facts, self.rank, self.world_size)))
        elif is_bad or is_slow:
            log_or_print(level, self._line(facts))
        if self._metrics:
            self._metrics.write(facts)

    def _status(self, now: float, tally: LossTally, waited: float) -> Facts:
        """Return the facts since the last call, and write them to the file."""
        facts = self._facts(self._last, tally, waited, done=False)
        self._due = now + self._every
        self._last = _Moment(now, self._samples, waited)
        if self._metrics:
            self._metrics.write(facts)
        return facts

    def _facts(self, since: _Moment, tally: LossTally, waited: float, *, done: bool) -> Facts:
        """Return the facts of this moment, with rates since an earlier one."""
        seconds = max(time.monotonic() - since.time, 1e-9)
        # Another thread writes it.
        total = tally.copy()
        total_cache = self._cache and replace(self._cache)
        cache = None
        if total_cache is not None and self._cache_before is not None:
            cache = total_cache.since(self._cache_before)
        return Facts(
            epoch=self._epoch,
            batch=self._batch,
            num_batches=self._num_batches,
            samples=self._samples,
            rate=(self._samples - since.samples) / seconds,
            share=min(max(waited - since.waited, 0.0) / seconds, 1.0),
            waited=waited,
            batches=self._batches,
            total=total,
            tally=total.since(self._before),
            done=done,
            total_cache=total_cache,
            cache=cache,
        )

    def _line(self, facts: Facts) -> str:
        """Return a status line."""
        speed = speed_text(facts, self.world_size)
        return f"{self._position(facts)}, {speed}, {loss_text(facts.tally)}"

    def _position(self, facts: Facts) -> str:
        """Return the beginning of a line: the rank, the epoch and the batch."""
        name = f"feed of rank {self.rank}" if self.rank else "feed"
        return f"{name}: epoch {facts.epoch}, batch {facts.batch:,}/{facts.num_batches:,}"
