"""Runs loaders in separate processes, and measures their memory.

Also finds the best number of workers.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path, PurePath
from typing import Any

import psutil

from ..environment import ROOT
from .loading import Plan, command

# Seconds between two measurements of the memory.
INTERVAL = 0.05
# Seconds that one run of a loader may take.
PATIENCE = 600.0
IMAGES = {".jpg", ".jpeg", ".png", ".webp"}
Result = dict[str, Any]

# Samples a second by the number of workers, for each set of shards, and for training or not.
_rates: dict[tuple[str, bool], dict[int, float]] = {}


def run_loader(name: str, plan: Plan, set_name: str, paths: list[str], samples: int) -> Result:
    """Run a loader, "wdsflow" or "open_clip", as planned; ``samples`` are those of the paths."""
    workers = plan.workers or best_workers(set_name, plan, paths, samples)
    workers = min(workers, len(paths) * plan.times)
    plan = dataclasses.replace(plan, workers=workers)
    figures = run(command(name, plan, paths, samples), watch=plan.measure == "peak")
    return figures | {"workers": workers}


def run_fidelity(paths: list[str]) -> Result:
    """Compare the two modes of ours."""
    return run([sys.executable, "-m", "support.bench.fidelity", json.dumps(paths)])


def best_workers(set_name: str, plan: Plan, paths: list[str], samples: int) -> int:
    """Return the number of workers with which OpenCLIP's loader is fastest on this machine.

    Found by short trials in small batches.
    """
    key = set_name, plan.train
    if key not in _rates:
        cores = os.cpu_count() or 1
        rates: dict[int, float] = {}

        def trial(workers: int) -> float:
            times = max(4, plan.times, -(-workers // len(paths)))
            short = Plan(
                "rate", train=plan.train, batch=32, workers=workers, seconds=3, times=times
            )
            rates[workers] = run(command("open_clip", short, paths, samples))["samples_per_s"]
            return rates[workers]

        more = max(cores + 1, cores * 3 // 2)
        if trial(more) > trial(cores):
            trial(2 * cores)
        else:
            trial(max(1, cores // 2))
        _rates[key] = dict(sorted(rates.items()))
        speeds = ", ".join(
            f"{workers} workers {speed:.3g}/s" for workers, speed in _rates[key].items()
        )
        print(f"open_clip, {set_name}{'' if plan.train else ', evaluation'}: {speeds}", flush=True)
    rates = _rates[key]
    return max(rates, key=lambda workers: rates[workers])


def trials(set_name: str, plan: Plan | None) -> dict[int, float]:
    """Return samples a second by the number of workers, empty if there were no trials."""
    return _rates.get((set_name, plan.train), {}) if plan is not None and not plan.workers else {}


def count_pictures(paths: list[str]) -> int:
    """Return how many pictures shards have."""
    count = 0
    for path in paths:
        with tarfile.open(path) as tar:
            count += sum(PurePath(name).suffix.lower() in IMAGES for name in tar.getnames())
    return count


def run(arguments: list[str], *, watch: bool = False) -> Result:
    """Run a command that prints JSON, without webdataset 1.x, and return the result.

    ``watch`` adds ``peak_mb``, the peak memory of all its processes.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT / "scripts")}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            arguments,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env=environment,
            # Workers end with it, whatever happens here.
            start_new_session=True,
        )
        try:
            peak = wait_for_peak_memory(process) if watch else 0.0
            printed, _ = process.communicate(timeout=PATIENCE)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{' '.join(arguments)[:300]}\n{errors.read()[-4000:]}")
    result: Result = json.loads(printed.splitlines()[-1])
    return result | ({"peak_mb": peak} if watch else {})


def wait_for_peak_memory(process: subprocess.Popen[str]) -> float:
    """Wait for a process to end, and return the peak memory of it and its children, in MB."""
    root = psutil.Process(process.pid)
    peak = 0
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        memory = 0
        with contextlib.suppress(psutil.Error):
            for member in [root, *root.children(recursive=True)]:
                with contextlib.suppress(psutil.Error, OSError):
                    memory += proportional(member)
        peak = max(peak, memory)
        time.sleep(INTERVAL)
    return peak / 1e6


def proportional(process: psutil.Process) -> int:
    """Return the memory of a process: its own pages, and its share of shared pages.

    Only its own pages count if the system reports no shares.
    """
    memory = process.memory_full_info()
    return int(getattr(memory, "pss", memory.uss))


def shards_in(folder: Path) -> list[str]:
    """Return the shards of a folder."""
    paths = sorted(str(path) for path in folder.resolve().glob("*.tar"))
    if not paths:
        raise SystemExit(f"no .tar in {folder}")
    return paths
