"""Predicts what a reader does with a generated shard set.

Predictions are the verdict and the samples one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import Evidence, ScanOptions, ShardEvidence
from wdsflow.scan.runs import RunCollector
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.shapes import Run, Runs
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.tar.members import Stop
from wdsflow.validate import Verdict
from wdsflow.validate.verdicts.judge import judge

Logs = dict[int, tuple[Runs, list[Run]]]  # by the identity of the Runs, which are kept alive beside


class RunLog(RunCollector):
    """Keeps every run, where the collector only counts shapes."""

    def __init__(self, logs: Logs) -> None:
        super().__init__()
        self.logs = logs
        self.log: list[Run] = []

    def copy(self) -> "RunLog":
        """Return an independent log in the same state."""
        other = RunLog(self.logs)
        other.__dict__ |= super().copy().__dict__
        other.log = list(self.log)
        return other

    def close(self) -> None:
        """Write the open run down."""
        if self.key is not None:
            self.log.append(Run(self.key, self.offset, tuple(self.parts)))
        super().close()

    def runs(self) -> Runs:
        """Write the last run down, and file the log under the runs that it belongs to."""
        if self.key is not None:
            self.log.append(Run(self.key, self.offset, tuple(self.parts)))
        runs = super().runs()
        self.logs[id(runs)] = runs, self.log
        return runs


@dataclass(slots=True)
class Prediction:
    """What should come out."""

    verdict: Verdict
    # Of usable samples, worker by worker, in order.
    keys: list[list[str]] = field(default_factory=list)
    error: bool = False

    @property
    def stall(self) -> bool:
        """Return whether some worker hangs."""
        return self.verdict.outcome == "stalls"


@dataclass(slots=True)
class Scanned:
    """Evidence of some shards, with all their runs."""

    shards: list[ShardEvidence] = field(default_factory=list)
    logs: Logs = field(default_factory=dict)


def scan_all(urls: Sequence[str], options: ScanOptions) -> Scanned:
    """Scan shards, keeping every run."""
    scanned = Scanned()
    for url in urls:
        scanned.shards.append(
            scan_shard(single_shard(url), options, collector=lambda: RunLog(scanned.logs))
        )
    return scanned


def predict(scanned: Scanned, reader: Reader) -> Prediction:
    """Predict what the reader makes of the shards."""
    prediction = Prediction(judge(Evidence("full", scanned.shards), reader))
    for worker in reader.order(scanned.shards):
        keys, error = _one_worker(reader, worker, scanned.logs)
        prediction.keys.append(keys)
        prediction.error = prediction.error or error
        if error:
            break
    return prediction


def _one_worker(
    reader: Reader, shards: Sequence[ShardEvidence], logs: Logs
) -> tuple[list[str], bool]:
    """Walk run by run, with none of the shortcuts of the verdict's own pass."""
    keys: list[str] = []
    preparation = reader.preparing_reader(shards)
    if preparation is not None and _one_worker(preparation, shards, logs)[1]:
        return keys, True
    if reader.crash_at_start(shards):
        return keys, True
    reader = reader.bound_to(shards)
    waiting: list[Run] = []  # not yet closed
    for shard in shards:
        if reader.crash_at_shard(shard):
            return keys, True
        opened = reader.opens(shard)
        _, runs = logs.get(id(reader.runs(shard)), (None, [])) if opened else (None, [])
        for number, run in enumerate(runs):
            if waiting and (number or waiting[-1].key != run.key):
                if _take(reader, waiting, keys):
                    return keys, True
                waiting.clear()
            waiting.append(run)
        stop = shard.stop if opened else Stop("unreadable")
        if reader.crash_at_stop(stop):
            if reader.yields_open_sample(shard):
                _take(reader, waiting, keys)
            return keys, True
        if not reader.joins:
            if _take(reader, waiting, keys):
                return keys, True
            waiting.clear()
    crashed = _take(reader, waiting, keys)
    return keys, crashed or ((reader.empty_raises or reader.gives_up) and not keys)


def _take(reader: Reader, waiting: list[Run], keys: list[str]) -> bool:
    """Add the keys of the usable samples of one run, which may span several shards.

    Returns True if the run raises.
    """
    for fate in (
        reader.fates(tuple(part for run in waiting for part in run.shape)) if waiting else ()
    ):
        if fate.kind == "crash":
            return True
        if fate.kind == "usable":
            keys.append(ascii(waiting[0].key))
    return False
