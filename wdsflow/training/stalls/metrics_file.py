"""Metrics files of a feed: Prometheus' text format, or JSON lines."""

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from wdsflow.shards.cache.figures import CacheFigures
from wdsflow.text.shell import escape

from .loss_tally import log_or_print
from .progress_facts import Facts


class _Metric(NamedTuple):
    """A metric with one value."""

    name: str
    kind: str
    text: str
    value: float


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
        if world_size > 1:
            name = name.with_name(f"{name.stem}-rank{rank}{name.suffix}")
        self.path = name
        self.rank = rank
        self.world_size = world_size
        self._failed = False

    def write(self, facts: Facts) -> None:
        """Write the facts of this moment."""
        try:
            if self.path.suffix == ".prom":
                self._replace(exposition(facts, self.rank))
            else:
                line = json.dumps(_record(facts, self.rank, self.world_size))
                with self.path.open("a", encoding="utf-8") as stream:
                    stream.write(f"{line}\n")
        except OSError as error:
            if not self._failed:
                log_or_print(
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
    """Return facts in Prometheus' text format 0.0.4, without times.

    node_exporter's textfile collector takes no times.
    """
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
    for metric in (*_feed_metrics(facts), *_cache_metrics(facts.total_cache)):
        yield from _family(metric.name, metric.kind, metric.text)
        yield f"wdsflow_{metric.name}{{{rank}}} {metric.value:.17g}"


def _feed_metrics(facts: Facts) -> Iterator[_Metric]:
    damaged = {item.shard for item in facts.total.damage.values()}
    yield _Metric("damaged_shards", "gauge", "Damaged shards.", len(damaged))
    yield _Metric("batches_total", "counter", "Batches delivered.", facts.batches)
    waited = "Seconds that training waited for batches."
    yield _Metric("wait_seconds_total", "counter", waited, facts.waited)
    yield _Metric("epoch", "gauge", "The current epoch, from 0.", facts.epoch)
    yield _Metric("epoch_batch", "gauge", "Batches delivered in this epoch.", facts.batch)
    yield _Metric("epoch_batches", "gauge", "Batches of this epoch.", facts.num_batches)
    speed = "Samples per second delivered by this rank, recently."
    yield _Metric("samples_per_second", "gauge", speed, facts.rate)
    share = "Share of the time that training waited, recently."
    yield _Metric("wait_ratio", "gauge", share, facts.share)


def _cache_metrics(cache: CacheFigures | None) -> Iterator[_Metric]:
    """Yield the metrics of a cache, none without one."""
    if cache is None:
        return
    misses = cache.stored + cache.passed
    yield _Metric("cache_hits_total", "counter", "Shards read from the cache.", cache.hits)
    yield _Metric("cache_misses_total", "counter", "Shards read from servers.", misses)
    saved = "Bytes that were not downloaded."
    yield _Metric("cache_saved_bytes_total", "counter", saved, cache.saved)
    downloaded = "Bytes downloaded."
    yield _Metric("cache_downloaded_bytes_total", "counter", downloaded, cache.downloaded)
    yield _Metric("cache_bytes", "gauge", "Bytes of all shards in the cache.", cache.size)
    yield _Metric("cache_limit_bytes", "gauge", "Limit of the cache.", cache.limit)


def _family(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP wdsflow_{name} {text}", f"# TYPE wdsflow_{name} {kind}"


def _label(text: str) -> str:
    return escape(text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _record(facts: Facts, rank: int, world_size: int) -> dict[str, object]:
    """Return facts as a JSON object.

    Counts of samples are those of this epoch. "waited_seconds" is since the start.
    """
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
