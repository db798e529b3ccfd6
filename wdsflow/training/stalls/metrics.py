"""What a feed has done, in files for other programs: Prometheus' text format, or JSON lines."""

import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.text.shell import escape

from .loss_tally import LossTally, say


class Facts(NamedTuple):
    """How far a feed has come. Nobody changes the tallies any more."""

    epoch: int
    batch: int  # of this epoch
    num_batches: int
    samples: int  # delivered in this epoch
    rate: float  # samples a second, of late or of the whole epoch
    share: float  # of that time training waited
    waited: float  # seconds, since the feed began
    batches: int  # since the feed began
    total: LossTally  # since the feed began
    tally: LossTally  # of this epoch
    done: bool = False  # the epoch is through


class Metrics:
    """A file of facts: ``.prom`` is rewritten each time; ``.jsonl`` gets a line.

    With several ranks each has its own file, "feed-rank3.prom". Raises ValueError for other names. A file that cannot
    be written is said once and does not stop anything.
    """

    def __init__(self, path: str, *, rank: int = 0, world_size: int = 1) -> None:
        name = Path(path)
        if name.suffix not in (".prom", ".jsonl"):
            raise ValueError(f"metrics is {path!r}; name a file *.prom (Prometheus) or *.jsonl (JSON lines)")
        self.path = name.with_name(f"{name.stem}-rank{rank}{name.suffix}") if world_size > 1 else name
        self.rank, self.world_size = rank, world_size
        self._failed = False

    def write(self, facts: Facts) -> None:
        """Write the facts of this moment."""
        try:
            if self.path.suffix == ".prom":
                self._replace(exposition(facts, self.rank))
            else:
                self._append(json.dumps(record(facts, self.rank, self.world_size)))
        except OSError as error:
            if not self._failed:
                say(logging.WARNING, f"feed: metrics cannot be written, training continues: {escape(str(error), 200)}")
            self._failed = True

    def _replace(self, text: str) -> None:
        """Readers see a whole file, the old or the new. Not synced: it is old in ten seconds anyway."""
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, self.path)
        finally:
            temporary.unlink(missing_ok=True)

    def _append(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")


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
    yield from _family("samples_noted_total", "counter", "Samples that were not lost, by what is noted of them.")
    for note, count in total.noted.items():
        yield f'wdsflow_samples_noted_total{{{rank},note="{_label(note)}"}} {count}'
    single: tuple[tuple[str, str, str, float], ...] = (
        ("damaged_shards", "gauge", "Damaged shards.", len({item.shard for item in total.damage.values()})),
        ("batches_total", "counter", "Batches delivered.", facts.batches),
        ("wait_seconds_total", "counter", "Seconds that training waited for batches.", facts.waited),
        ("epoch", "gauge", "The current epoch, from 0.", facts.epoch),
        ("epoch_batch", "gauge", "Batches delivered in this epoch.", facts.batch),
        ("epoch_batches", "gauge", "Batches of this epoch.", facts.num_batches),
        ("samples_per_second", "gauge", "Samples per second delivered by this rank, recently.", facts.rate),
        ("wait_ratio", "gauge", "Share of the time that training waited, recently.", facts.share),
    )
    for name, kind, text, value in single:
        yield from _family(name, kind, text)
        yield f"wdsflow_{name}{{{rank}}} {value:.17g}"


def _family(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP wdsflow_{name} {text}", f"# TYPE wdsflow_{name} {kind}"


def _label(text: str) -> str:
    return escape(text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def record(facts: Facts, rank: int, world_size: int) -> dict[str, Any]:
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
    damage = [[escape(item.shard, 500), item.what, escape(item.detail)] for item in tally.damage.values()]
    return {
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
