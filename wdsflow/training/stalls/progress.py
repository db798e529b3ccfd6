"""Progress of a feed: status lines, a table at the end of an epoch, and metrics files."""

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from typing import NamedTuple

from wdsflow.memory.sizes import format_size
from wdsflow.shards.cache.figures import CacheFigures
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions

from .loss_tally import NO_TAR, REPEATED, UNREADABLE, LossTally, say

# Seconds, without status lines.
_METRICS_EVERY = 10.0
# Seconds without a batch that are worth a warning, on any rank.
_LONG_WAIT = 30.0
# Shares that are worth a warning.
_MUCH_LOST, _MUCH_WAITED = 0.01, 0.1
# Damaged shards that a table lists.
_MOST = 20


class Facts(NamedTuple):
    """The progress of a feed at one moment."""

    epoch: int
    # Of this epoch.
    batch: int
    num_batches: int
    # Delivered in this epoch.
    samples: int
    # Samples per second, recently or in the whole epoch.
    rate: float
    # Fraction of that time that training waited.
    share: float
    # Seconds, since the feed began.
    waited: float
    # Since the feed began.
    batches: int
    # Since the feed began.
    total: LossTally
    # Of this epoch.
    tally: LossTally
    # The epoch is complete.
    done: bool = False
    # Of shards that are kept on this machine, since the feed began and of this epoch.
    total_cache: CacheFigures | None = None
    cache: CacheFigures | None = None


class Progress:
    """Status lines, the table and metrics of one rank.

    Rank 0 logs. The others log one line at the end of an epoch, and only if they lost one sample in
    a hundred, found a damaged shard, or training waited for them for a tenth of the time: the
    slowest rank sets the pace of all. Any rank logs if no batch came for half a minute. With
    ``status_every=0`` only such losses and damage are logged. ``cache``: the figures of the cache, which
    other threads change.
    """

    def __init__(
        self,
        options: FeedOptions,
        *,
        rank: int = 0,
        world_size: int = 1,
        cache: CacheFigures | None = None,
    ) -> None:
        self.rank, self.world_size = rank, world_size
        self._cache = self._cache_before = cache
        self._quiet = not options.status_every
        self._speaks = rank == 0 and not self._quiet
        self._every = options.status_every or _METRICS_EVERY
        self._metrics = (
            Metrics(options.metrics, rank=rank, world_size=world_size) if options.metrics else None
        )
        self._due = inf
        self._epoch = self._num_batches = self._batch = self._samples = self._batches = 0
        # Time, samples, seconds waited, when the epoch began.
        self._first: tuple[float, int, float] = (0.0, 0, 0.0)
        # The same when the last line was written.
        self._last = self._first
        self._before = LossTally()
        first_wait = min(self._every, _LONG_WAIT) if self._speaks else _LONG_WAIT
        self._next_wait = self._first_wait = inf if self._quiet else first_wait

    def begin(self, epoch: int, num_batches: int, tally: LossTally, waited: float) -> None:
        """Begin an epoch. ``tally`` and ``waited`` (seconds) are of the whole run, here and below."""
        self._epoch, self._num_batches, self._batch, self._samples = epoch, num_batches, 0, 0
        self._before = tally.copy()
        self._cache_before = self._cache and replace(self._cache)
        self._first = self._last = (time.monotonic(), 0, waited)
        self._due = self._first[0] + self._every if self._speaks or self._metrics else inf
        # Report now if the file cannot be written.
        if self._metrics:
            self._metrics.write(self._facts(self._first, tally, waited, done=False))

    def step(self, samples: int, batch: int, tally: LossTally, waited: float) -> None:
        """Count a batch of so many samples, ``batch`` being its number (from 1) in its epoch; log if it is time."""
        self._samples, self._batch, self._batches = (
            self._samples + samples,
            batch,
            self._batches + 1,
        )
        self._next_wait = self._first_wait
        now = time.monotonic()
        if now < self._due:
            return
        facts = self._take(now, tally, waited)
        if self._speaks:
            say(logging.INFO, self._line(facts))

    def wait(self, seconds: float, tally: LossTally, waited: float) -> None:
        """Log periodically while no batch has come for ``seconds``; ``waited`` excludes them."""
        now = time.monotonic()
        if now >= self._due and self._metrics:
            self._take(now, tally, waited + seconds)
        if seconds < self._next_wait:
            return
        self._next_wait = 2 * seconds
        facts = self._facts(self._first, tally, waited + seconds, done=False)
        level = logging.WARNING if seconds >= _LONG_WAIT else logging.INFO
        say(
            level,
            f"{self._where(facts)}: no batch for {seconds:,.0f} s, {_loss(facts.tally)}{_damaged(facts.tally)}",
        )

    def end(self, tally: LossTally, waited: float) -> None:
        """End an epoch."""
        self._due = inf
        facts = self._facts(self._first, tally, waited, done=True)
        lost = facts.tally.lost >= max(1, _MUCH_LOST * facts.tally.seen)
        bad = lost or bool(facts.tally.damage)
        level = logging.WARNING if bad else logging.INFO
        if self._speaks:
            say(level, "\n".join(self._table(facts)))
        elif bad or (self.rank and not self._quiet and facts.share >= _MUCH_WAITED):
            say(level, self._line(facts))
        if self._metrics:
            self._metrics.write(facts)

    def _take(self, now: float, tally: LossTally, waited: float) -> Facts:
        """Return the facts since the last call, and write them to the file."""
        facts = self._facts(self._last, tally, waited, done=False)
        self._due, self._last = now + self._every, (now, self._samples, waited)
        if self._metrics:
            self._metrics.write(facts)
        return facts

    def _facts(
        self, since: tuple[float, int, float], tally: LossTally, waited: float, *, done: bool
    ) -> Facts:
        seconds = max(time.monotonic() - since[0], 1e-9)
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
            rate=(self._samples - since[1]) / seconds,
            share=min(max(waited - since[2], 0.0) / seconds, 1.0),
            waited=waited,
            batches=self._batches,
            total=total,
            tally=total.since(self._before),
            done=done,
            total_cache=total_cache,
            cache=cache,
        )

    def _where(self, facts: Facts) -> str:
        who = f"feed of rank {self.rank}" if self.rank else "feed"
        return f"{who}: epoch {facts.epoch}, batch {facts.batch:,}/{facts.num_batches:,}"

    def _line(self, facts: Facts) -> str:
        return f"{self._where(facts)}, {self._speed(facts)}, {_loss(facts.tally)}{_damaged(facts.tally)}"

    def _speed(self, facts: Facts) -> str:
        speed = f"{facts.rate:,.0f} samples/s"
        # Every rank takes the same number of steps.
        if self.world_size > 1:
            speed += f" on this rank (about {facts.rate * self.world_size:,.0f} on all {self.world_size})"
        return f"{speed}, training waited {100 * facts.share:.0f} % of the time"

    def _table(self, facts: Facts) -> Iterator[str]:
        tally = facts.tally
        whose = "" if self.world_size == 1 else f" (rank {self.rank} of {self.world_size})"
        what = f"{facts.batch:,} of {facts.num_batches:,} batches, {facts.samples:,} samples"
        yield f"feed: epoch {facts.epoch} done{whose}: {what}, {self._speed(facts)}"
        rows = [("seen", tally.seen, ""), ("kept", tally.kept, ""), ("lost", tally.lost, "")]
        for item in tally.reasons:
            detail = f" ({escape(item.first.detail, 60)})" if item.first.detail else ""
            example = f"first: {escape(item.first.key, 60)} in {escape(item.first.shard)}{detail}"
            rows.append((f"  {item.first.stage}: {item.first.reason}", item.count, example))
        rows += [(f"noted: {note}", count, "") for note, count in tally.noted.most_common()]
        wide = max(len(name) for name, _, _ in rows)
        for name, count, example in rows:
            # Repeated samples do not count as seen.
            share = "" if name == f"noted: {REPEATED}" else _share(count, tally.seen)
            yield f"  {name:<{wide}} {count:>12,} {share:>8}  {example}".rstrip()
        if facts.cache is not None:
            yield f"  {cache_line(facts.cache)}"
        damage = list(tally.damage.values())
        for shard_damage in damage[:_MOST]:
            # The detail contains it.
            what = "" if shard_damage.what in {NO_TAR, UNREADABLE} else f"{shard_damage.what}, "
            yield f"  damaged: {escape(shard_damage.shard, 200)}: {what}{escape(shard_damage.detail)}"
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


def cache_line(cache: CacheFigures) -> str:
    """Return what a cache did."""
    return (
        f"cache: {how_many(cache.hits, 'shard')} read from it ({format_size(cache.saved)}), "
        f"{cache.stored:,} added, {cache.passed:,} not kept, "
        f"{format_size(cache.downloaded)} downloaded, "
        f"{format_size(cache.size)} of {format_size(cache.limit)} used"
    )


def _share(count: int, seen: int) -> str:
    share = 100 * count / seen if seen else 0.0
    return f"{share:.3g} %" if 0 < share < 1 else f"{share:.1f} %"


class Metrics:
    """A file of facts: ``.prom`` is rewritten each time; ``.jsonl`` gets a line.

    With several ranks each has its own file, "feed-rank3.prom". Raises ValueError for other names.
    A file that cannot be written is reported once and stops nothing.
    """

    def __init__(self, path: str, *, rank: int = 0, world_size: int = 1) -> None:
        name = Path(path)
        if name.suffix not in (".prom", ".jsonl"):
            raise ValueError(
                f"metrics is {path!r}; name a file *.prom (Prometheus) or *.jsonl (JSON lines)"
            )
        self.path = (
            name.with_name(f"{name.stem}-rank{rank}{name.suffix}") if world_size > 1 else name
        )
        self.rank, self.world_size = rank, world_size
        self._failed = False

    def write(self, facts: Facts) -> None:
        """Write the facts of this moment."""
        try:
            if self.path.suffix == ".prom":
                self._replace(exposition(facts, self.rank))
            else:
                with self.path.open("a", encoding="utf-8") as stream:
                    stream.write(f"{json.dumps(_record(facts, self.rank, self.world_size))}\n")
        except OSError as error:
            if not self._failed:
                say(
                    logging.WARNING,
                    f"feed: metrics cannot be written, training continues: {escape(str(error), 200)}",
                )
            self._failed = True

    def _replace(self, text: str) -> None:
        """Replace the file in one step. It is not synced: it is outdated in ten seconds anyway."""
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, self.path)
        finally:
            temporary.unlink(missing_ok=True)


def exposition(facts: Facts, rank: int) -> str:
    """Return facts in Prometheus' text format 0.0.4, as node_exporter's textfile collector takes it: no times."""
    return "\n".join([*_families(facts, f'rank="{rank}"'), ""])


def _families(facts: Facts, rank: str) -> Iterator[str]:
    total = facts.total
    yield from _family("samples_total", "counter", "Samples by outcome.")
    yield f'wdsflow_samples_total{{{rank},outcome="kept"}} {total.kept}'
    yield f'wdsflow_samples_total{{{rank},outcome="lost"}} {total.lost}'
    yield from _family("samples_lost_total", "counter", "Samples lost, by stage and reason.")
    for (stage, reason), item in total.losses.items():
        labels = f'{rank},stage="{_label(stage)}",reason="{_label(reason)}"'
        yield f"wdsflow_samples_lost_total{{{labels}}} {item.count}"
    yield from _family(
        "samples_noted_total", "counter", "Samples that were not lost, by what is noted of them."
    )
    for note, count in total.noted.items():
        yield f'wdsflow_samples_noted_total{{{rank},note="{_label(note)}"}} {count}'
    single: tuple[tuple[str, str, str, float], ...] = (
        (
            "damaged_shards",
            "gauge",
            "Damaged shards.",
            len({item.shard for item in total.damage.values()}),
        ),
        ("batches_total", "counter", "Batches delivered.", facts.batches),
        (
            "wait_seconds_total",
            "counter",
            "Seconds that training waited for batches.",
            facts.waited,
        ),
        ("epoch", "gauge", "The current epoch, from 0.", facts.epoch),
        ("epoch_batch", "gauge", "Batches delivered in this epoch.", facts.batch),
        ("epoch_batches", "gauge", "Batches of this epoch.", facts.num_batches),
        (
            "samples_per_second",
            "gauge",
            "Samples per second delivered by this rank, recently.",
            facts.rate,
        ),
        ("wait_ratio", "gauge", "Share of the time that training waited, recently.", facts.share),
    )
    if facts.total_cache is not None:
        single += _cache_metrics(facts.total_cache)
    for name, kind, text, value in single:
        yield from _family(name, kind, text)
        yield f"wdsflow_{name}{{{rank}}} {value:.17g}"


def _cache_metrics(cache: CacheFigures) -> tuple[tuple[str, str, str, float], ...]:
    return (
        ("cache_hits_total", "counter", "Shards read from the cache.", cache.hits),
        ("cache_misses_total", "counter", "Shards read from servers.", cache.stored + cache.passed),
        ("cache_saved_bytes_total", "counter", "Bytes that were not downloaded.", cache.saved),
        ("cache_downloaded_bytes_total", "counter", "Bytes downloaded.", cache.downloaded),
        ("cache_bytes", "gauge", "Bytes of all shards in the cache.", cache.size),
        ("cache_limit_bytes", "gauge", "Limit of the cache.", cache.limit),
    )


def _family(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP wdsflow_{name} {text}", f"# TYPE wdsflow_{name} {kind}"


def _label(text: str) -> str:
    return escape(text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _record(facts: Facts, rank: int, world_size: int) -> dict[str, object]:
    """Return facts as a JSON object. Counts of samples are those of this epoch; "waited_seconds" is since the start."""
    tally = facts.tally
    reasons = [
        {
            "stage": item.first.stage,
            "reason": item.first.reason,
            "count": item.count,
            "key": escape(item.first.key),
            "shard": escape(item.first.shard, 500),
        }
        for item in tally.losses.values()
    ]
    damage = [
        [escape(item.shard, 500), item.what, escape(item.detail)] for item in tally.damage.values()
    ]
    record: dict[str, object] = {
        "event": "epoch" if facts.done else "status",
        "time": round(time.time(), 3),
        "rank": rank,
        "world_size": world_size,
        "epoch": facts.epoch,
        "batch": facts.batch,
        "num_batches": facts.num_batches,
        "samples": facts.samples,
        "samples_per_second": round(facts.rate, 3),
        "wait_ratio": round(facts.share, 4),
        "waited_seconds": round(facts.waited, 3),
        "seen": tally.seen,
        "kept": tally.kept,
        "lost": tally.lost,
        "reasons": reasons,
        "noted": dict(tally.noted),
        "damaged": damage,
    }
    if facts.cache is not None:
        record["cache"] = asdict(facts.cache)
    return record
