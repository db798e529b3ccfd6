"""What a feed says while it runs: a status line now and then, and a table at the end of an epoch."""

import logging
import time
from collections.abc import Iterator
from math import inf

from wdsflow.text.shell import escape
from wdsflow.training.feed_options import FeedOptions

from .loss_tally import NO_TAR, REPEATED, UNREADABLE, LossReason, LossTally, say
from .metrics import Facts, Metrics

_METRICS_EVERY = 10.0  # seconds, where there is no status line
_LONG_WAIT = 30.0  # seconds without a batch that are worth a warning, on any rank
_MUCH_LOST, _MUCH_WAITED = 0.01, 0.1  # shares that are worth a warning
_MOST = 20  # damaged shards that a table names


class Progress:
    """Status lines, the table and metrics of one rank.

    Rank 0 speaks. The others say one line at the end of an epoch, and only if they lost one sample in a hundred, found
    a damaged shard, or training waited for them for a tenth of the time: the slowest rank sets the pace of all. Any
    rank says so when no batch comes for half a minute. With ``status_every=0`` only such losses and damage are said.
    """

    def __init__(self, options: FeedOptions, *, rank: int = 0, world_size: int = 1) -> None:
        self.rank, self.world_size = rank, world_size
        self._speaks = rank == 0 and options.status_every > 0
        self._every = options.status_every or _METRICS_EVERY
        self._metrics = Metrics(options.metrics, rank=rank, world_size=world_size) if options.metrics else None
        self._due = inf
        self._epoch = self._num_batches = self._batch = self._samples = self._batches = 0
        self._first: tuple[float, int, float] = (0.0, 0, 0.0)  # time, samples, seconds waited, when the epoch began
        self._last = self._first  # the same when the last line was written
        self._before = LossTally()
        self._next_wait = self._first_wait = min(self._every, _LONG_WAIT) if self._speaks else _LONG_WAIT
        if not options.status_every:
            self._next_wait = self._first_wait = inf

    def begin(self, epoch: int, num_batches: int, tally: LossTally, waited: float) -> None:
        """Begin an epoch. ``tally`` and ``waited`` (seconds) are of the whole run, here and below."""
        self._epoch, self._num_batches, self._batch, self._samples = epoch, num_batches, 0, 0
        self._before = tally.copy()
        self._first = self._last = (time.monotonic(), 0, waited)
        self._due = self._first[0] + self._every if self._speaks or self._metrics else inf
        if self._metrics:  # a file that cannot be written is said now
            self._metrics.write(self._facts(self._first, tally, waited, done=False))

    def step(self, samples: int, batch: int, tally: LossTally, waited: float) -> None:
        """Count a batch of so many samples, the one of that number (from 1) in its epoch; speak if it is time to."""
        self._samples += samples
        self._batch = batch
        self._batches += 1
        self._next_wait = self._first_wait
        now = time.monotonic()
        if now < self._due:
            return
        facts = self._take(now, tally, waited)
        if self._speaks:
            say(logging.INFO, self._line(facts))

    def wait(self, seconds: float, tally: LossTally, waited: float) -> None:
        """Speak, now and then, while a batch does not come for so many seconds; ``waited`` is without them."""
        now = time.monotonic()
        if now >= self._due and self._metrics:
            self._take(now, tally, waited + seconds)
        if seconds < self._next_wait:
            return
        self._next_wait = 2 * seconds
        facts = self._facts(self._first, tally, waited + seconds, done=False)
        level = logging.WARNING if seconds >= _LONG_WAIT else logging.INFO
        say(level, f"{self._where(facts)}: no batch for {seconds:,.0f} s, {_loss(facts.tally)}{_damaged(facts.tally)}")

    def end(self, tally: LossTally, waited: float) -> None:
        """End an epoch."""
        self._due = inf
        facts = self._facts(self._first, tally, waited, done=True)
        lost = facts.tally.lost >= max(1, _MUCH_LOST * facts.tally.seen)
        bad = lost or bool(facts.tally.damage)
        level = logging.WARNING if bad else logging.INFO
        if self._speaks:
            say(level, "\n".join(self._table(facts)))
        elif bad or (self.rank and facts.share >= _MUCH_WAITED):
            say(level, self._line(facts))
        if self._metrics:
            self._metrics.write(facts)

    def _take(self, now: float, tally: LossTally, waited: float) -> Facts:
        """Return what is new since the last time, and write it to the file."""
        facts = self._facts(self._last, tally, waited, done=False)
        self._due, self._last = now + self._every, (now, self._samples, waited)
        if self._metrics:
            self._metrics.write(facts)
        return facts

    def _facts(self, since: tuple[float, int, float], tally: LossTally, waited: float, *, done: bool) -> Facts:
        seconds = max(time.monotonic() - since[0], 1e-9)
        total = tally.copy()  # another thread writes it
        return Facts(
            epoch=self._epoch,
            batch=self._batch,
            num_batches=self._num_batches,
            samples=self._samples,
            rate=(self._samples - since[1]) / seconds,
            share=min(max(waited - since[2], 0.0) / seconds, 1.0),
            waited=waited,
            batches=self._batches,
            total=total,
            tally=total.since(self._before),
            done=done,
        )

    def _where(self, facts: Facts) -> str:
        who = f"feed of rank {self.rank}" if self.rank else "feed"
        return f"{who}: epoch {facts.epoch}, batch {facts.batch:,}/{facts.num_batches:,}"

    def _line(self, facts: Facts) -> str:
        return f"{self._where(facts)}, {self._speed(facts)}, {_loss(facts.tally)}{_damaged(facts.tally)}"

    def _speed(self, facts: Facts) -> str:
        speed = f"{facts.rate:,.0f} samples/s"
        if self.world_size > 1:  # every rank takes the same number of steps
            speed += f" on this rank (about {facts.rate * self.world_size:,.0f} on all {self.world_size})"
        return f"{speed}, training waited {100 * facts.share:.0f} % of the time"

    def _table(self, facts: Facts) -> Iterator[str]:
        tally = facts.tally
        whose = "" if self.world_size == 1 else f" (rank {self.rank} of {self.world_size})"
        what = f"{facts.batch:,} of {facts.num_batches:,} batches, {facts.samples:,} samples"
        yield f"feed: epoch {facts.epoch} done{whose}: {what}, {self._speed(facts)}"
        rows = [("seen", tally.seen, ""), ("kept", tally.kept, ""), ("lost", tally.lost, "")]
        rows += [(f"  {item.first.stage}: {item.first.reason}", item.count, _example(item)) for item in tally.reasons]
        rows += [(f"noted: {note}", count, "") for note, count in tally.noted.most_common()]
        wide = max(len(name) for name, _, _ in rows)
        for name, count, example in rows:
            # Repeated samples are no part of what was seen.
            share = "" if name == f"noted: {REPEATED}" else _share(count, tally.seen)
            yield f"  {name:<{wide}} {count:>12,} {share:>8}  {example}".rstrip()
        damage = list(tally.damage.values())
        for item in damage[:_MOST]:
            what = "" if item.what in {NO_TAR, UNREADABLE} else f"{item.what}, "  # the detail says that
            yield f"  damaged: {escape(item.shard, 200)}: {what}{escape(item.detail)}"
        if damage[_MOST:]:
            yield f"  damaged: {len(damage) - _MOST:,} more"


def _loss(tally: LossTally) -> str:
    if not tally.lost:
        return f"lost none of {tally.seen:,}"
    counts = ", ".join(f"{item.first.reason} {item.count:,}" for item in tally.reasons)
    return f"lost {tally.lost:,} of {tally.seen:,} ({counts})"


def _damaged(tally: LossTally) -> str:
    shards = list(dict.fromkeys(item.shard for item in tally.damage.values()))
    more = f" and {len(shards) - 1:,} more" if shards[1:] else ""
    return f", damaged: {escape(shards[0])}{more}" if shards else ""


def _share(count: int, seen: int) -> str:
    share = 100 * count / seen if seen else 0.0
    return f"{share:.3g} %" if 0 < share < 1 else f"{share:.1f} %"


def _example(item: LossReason) -> str:
    detail = f" ({escape(item.first.detail, 60)})" if item.first.detail else ""
    return f"first: {escape(item.first.key, 60)} in {escape(item.first.shard)}{detail}"
