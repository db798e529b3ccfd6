"""A run over simulated shards, with the real scheduler and the real record.

Only the work on each shard is simulated.

The workers are threads in place of processes, behind the interface of those; some die, as processes
do.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wdsflow.engines.local import LocalEngine
from wdsflow.engines.worker import Worker
from wdsflow.filtering.passes import run_pass
from wdsflow.filtering.passes.filter_pass import Pass
from wdsflow.filtering.recipe.recipe import Recipe, canonical_recipe
from wdsflow.filtering.run_options import RunOptions
from wdsflow.filtering.run_report import RunReport
from wdsflow.filtering.shard.run_shard import run_shard
from wdsflow.filtering.shard.shard_task import ShardTask
from wdsflow.records.read_status import statuses
from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity

# Of each pretended shard.
SAMPLES = 1000
# Bytes of a line of the record, about.
_LINE = 420


@dataclass(frozen=True)
class Simulation:
    """What to pretend. ``fail_rate``: the share of shards at which a worker dies."""

    shards: int = 100_000
    workers: int = 512
    fail_rate: float = 1e-4
    seed: int = 0


class PretendedPeer:
    """A process that works at once, or dies."""

    def __init__(self, engine: "PretendedWorkers") -> None:
        self._engine = engine

    def ask(self, request: tuple[Any, ShardTask]) -> ShardRecord:
        """Return the answer to a task. Raises EOFError if the process dies."""
        _, task = request
        with self._engine.one_at_a_time:
            if task.shard in self._engine.deadly:
                self._engine.deadly.remove(task.shard)
                self._engine.deaths += 1
                raise EOFError
            return self._engine.pretended_work(task)

    def wait(self) -> int:
        """Return the status of its end."""
        return -signal.SIGKILL

    def end(self) -> None:
        """End it."""

    close = end


class PretendedWorkers(LocalEngine[ShardTask]):
    """The engine of one machine, with pretended processes; ``deaths`` counts those that died."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(run_shard, simulation.workers)
        chance = random.Random(simulation.seed)
        # Each kills one worker: a shard that kills two is given up.
        self.deadly = {
            shard for shard in range(simulation.shards) if chance.random() < simulation.fail_rate
        }
        self.deaths = 0
        # Hundreds of threads would fight for the interpreter's lock; processes do not.
        self.one_at_a_time = threading.Lock()

    def start_worker(self) -> Worker:
        """Return a worker whose processes are pretended."""
        engine = self

        class PretendedWorker(Worker):
            def _start(self) -> Any:
                self._peer: Any = PretendedPeer(engine)
                return self._peer

        return PretendedWorker(run_shard)

    def pretended_work(self, task: ShardTask) -> ShardRecord:
        """Write an empty ledger, and return the record of a shard of which most is kept."""
        task.layout.ledger(task.name).touch()
        record = ShardRecord(
            task.shard,
            task.url,
            task.name,
            task.identity,
            input_identity(task.url),
            samples=SAMPLES,
        )
        record.kept = SAMPLES - 100
        record.dropped = {"caption_words >= 3": 100}
        record.members = 2 * SAMPLES
        return record


def simulate(
    folder: Path, simulation: Simulation, index: int = 0, count: int = 1
) -> tuple[RunReport, int]:
    """Run, or resume; return the report, and how many pretended processes died."""
    # What threads do here, processes do in a real run: they keep no lock of the interpreter.
    sys.setswitchinterval(1e-4)
    names = [f"{number:06d}.tar" for number in range(simulation.shards)]
    inputs = [Shard.file(f"{folder}/in/{name}") for name in names]
    engine = PretendedWorkers(simulation)
    vars(run_pass)["engine_for"] = lambda *_, **__: engine
    recipe = canonical_recipe(Recipe(where="caption_words >= 3"))
    options = RunOptions(jobs=0, index=index, count=count)
    pass_ = Pass("filter", inputs, names, Layout(folder / "out"), recipe, options)
    report = run_pass.run_pass(pass_)
    return report, engine.deaths


def prepare(folder: Path, shards: int) -> None:
    """Write the pretended shards, which are never read."""
    (folder / "in").mkdir(parents=True)
    for number in range(shards):
        (folder / "in" / f"{number:06d}.tar").touch()


def timed(folder: Path, simulation: Simulation) -> None:
    """Run, and write the figures to a file."""
    start = time.monotonic()
    report, deaths = simulate(folder, simulation)
    facts = {
        "seconds": time.monotonic() - start,
        "resumed": report.resumed,
        "deaths": deaths,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "samples": report.total("samples"),
        "failures": len(report.failures),
    }
    (folder / "figures.json").write_text(json.dumps(facts))


def in_a_process(folder: Path, simulation: Simulation, until: int | None = None) -> float:
    """Run in a separate process, and return the seconds it took.

    The process is killed when ``until`` shards are recorded.
    """
    start = time.monotonic()
    child = multiprocessing.get_context("fork").Process(target=timed, args=(folder, simulation))
    child.start()
    lines = folder / "out" / ".wdsflow" / "manifest.jsonl"
    while until is not None and child.is_alive() and recorded_shard_count(lines) < until:
        time.sleep(0.02)
    if until is not None:
        child.kill()
    child.join()
    if until is None and child.exitcode:
        raise SystemExit(f"the run ended with status {child.exitcode}")
    return time.monotonic() - start


def recorded_shard_count(lines: Path) -> int:
    """Return how many shards a record has, about: by its size."""
    return lines.stat().st_size // _LINE if lines.exists() else 0


def compare(folder: Path, simulation: Simulation) -> bool:
    """Return whether a run that was not killed writes the same record."""
    os.rename(folder / "out", folder / "first")
    in_a_process(folder, simulation)
    resumed = (folder / "first" / ".wdsflow" / "manifest.jsonl").read_bytes()
    uninterrupted = (folder / "out" / ".wdsflow" / "manifest.jsonl").read_bytes()
    is_same = resumed == uninterrupted
    print(f"a run without a kill writes {'the same record' if is_same else 'ANOTHER RECORD'}")
    return is_same


def report_on(folder: Path, simulation: Simulation, options: argparse.Namespace) -> bool:
    """Run, kill, resume; print the figures, and return whether they are as they should be."""
    prepare(folder, simulation.shards)
    seconds = in_a_process(folder, simulation, simulation.shards // 2)
    start = time.monotonic()
    (status,) = statuses(folder / "out")
    status_seconds = time.monotonic() - start
    done = status.total("done")
    print(
        f"killed: {status.slices[0].phase}, {done:,} of {simulation.shards:,} shards recorded (status took {status_seconds:.2f} s)"
    )
    seconds += in_a_process(folder, simulation)
    figures = json.loads((folder / "figures.json").read_text())
    overhead = 1000 * seconds / simulation.shards
    print(
        f"resumed: {figures['resumed']:,} shards were done; {figures['deaths']:,} workers died, no shard is missing"
    )
    print(
        f"overhead: {overhead:.2f} ms per shard with {simulation.workers:,} workers, {seconds:.1f} s in all"
    )
    inside = folder / "out" / ".wdsflow"
    lines = (inside / "manifest.jsonl").read_bytes()
    has_line_per_shard = lines.count(b"\n") == simulation.shards
    is_compact = has_line_per_shard and not list(inside.glob("manifest-*"))
    print(
        f"record: {len(lines) / 1e6:.1f} MB, {'compacted: a line for each shard' if is_compact else 'NOT COMPACTED'}"
    )
    print(f"memory: {figures['memory'] / 1e6:.0f} MB at most, of the process that runs the workers")
    has_all = figures["samples"] == simulation.shards * SAMPLES
    is_right = is_compact and has_all and figures["resumed"] == done and not figures["failures"]
    if options.compare and not compare(folder, simulation):
        is_right = False
    if overhead > options.most:
        print(f"TOO SLOW: more than {options.most:g} ms per shard")
        is_right = False
    return is_right


def main(words: Sequence[str] | None = None) -> int:
    """Run the simulation, and print what it costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, default=Simulation.shards)
    parser.add_argument("--workers", type=int, default=Simulation.workers)
    parser.add_argument(
        "--fail-rate",
        type=float,
        default=Simulation.fail_rate,
        help="of shards, at which a worker dies",
    )
    parser.add_argument("--seed", type=int, default=Simulation.seed)
    parser.add_argument(
        "--most", type=float, default=5.0, help="milliseconds of overhead per shard; more fails"
    )
    parser.add_argument(
        "--compare", action="store_true", help="run again without a kill, and compare the records"
    )
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 -- a folder in memory
    parser.add_argument(
        "--folder",
        default=memory,
        help="where to write; by default in memory, where syncs are free",
    )
    options = parser.parse_args(words)
    simulation = Simulation(options.shards, options.workers, options.fail_rate, options.seed)
    with tempfile.TemporaryDirectory(prefix="wdsflow-simulate-", dir=options.folder) as name:
        return 0 if report_on(Path(name), simulation, options) else 1


if __name__ == "__main__":
    sys.exit(main())
