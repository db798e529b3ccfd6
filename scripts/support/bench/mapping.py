"""Mapping a function over rows that become large pictures.

`python mapping.py bounded_map|map` prints one JSON line.

2,000 rows become float32 images of 3 x 1120 x 1120, 15 MB each and 30 GB together, as GLM-4's
example does. Ours may take 2 GiB. ``datasets.map`` runs at its defaults, under a limit of its own,
so that it cannot take the machine down.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from ..environment import ROOT

# In the place of a set of shards.
ROWS_ONLY = "rows"
ROWS, SIDE = 2000, 1120
# Bytes: what ours may take, and where map is stopped.
CAP, LIMIT = 2 << 30, 6 << 30


def run(which: str) -> dict[str, Any]:
    """Map in a separate process, and return its output and peak memory.

    Memory is that of the process and its children (PSS).
    """
    (ROOT / ".bench").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="mapping-", dir=ROOT / ".bench"))
    if shutil.disk_usage(folder).free < 34 << 30 and which == "bounded_map":
        raise SystemExit("bounded-map writes 30 GB, which are not free")
    try:
        command = [sys.executable, "-m", "support.bench.mapping", which, str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT / "scripts") as process:
            peaks: list[int] = []
            watch = threading.Thread(target=_watch, args=(process.pid, peaks))
            watch.start()
            printed, _ = process.communicate()
            watch.join()
        if process.returncode:
            raise SystemExit(f"{which} ended with {process.returncode}")
        return {**json.loads(printed.splitlines()[-1]), "peak_mb": max(peaks, default=0) / 1e6}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _watch(pid: int, peaks: list[int]) -> None:
    while psutil.pid_exists(pid):
        total = 0
        try:
            family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        except psutil.Error:
            return
        for process in family:
            try:
                total += process.memory_full_info().pss
            except (psutil.Error, AttributeError):
                continue
        peaks.append(total)
        time.sleep(0.02)


def work(which: str, folder: str) -> dict[str, Any]:
    """Map, and say how many rows came of it, or what stopped it."""
    import datasets
    import numpy

    datasets.disable_progress_bars()
    dataset = datasets.Dataset.from_dict({"id": list(range(ROWS))})

    def pictures(batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        return {
            "pixels": [numpy.full((3, SIDE, SIDE), number, numpy.float32) for number in batch["id"]]
        }

    start = time.perf_counter()
    if which == "map":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
        try:
            mapped = dataset.map(pictures, batched=True, cache_file_name=f"{folder}/map.arrow")
        except MemoryError as error:
            return {
                "rows": 0,
                "error": type(error).__name__,
                "seconds": time.perf_counter() - start,
            }
    else:
        import wdsflow

        mapped = wdsflow.bounded_map(dataset, pictures, CAP, folder=f"{folder}/rows")
    seconds = time.perf_counter() - start
    assert mapped.with_format("numpy")[ROWS - 1]["pixels"].mean() == ROWS - 1
    return {"rows": len(mapped), "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(work(*sys.argv[1:])))
