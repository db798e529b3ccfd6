"""Programs that call wdsflow: run as ``python -m tests.engines.programs NAME SOURCE OUT``."""

import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from tests.filtering.shards import digests
from wdsflow import Recipe, RunOptions, bounded_map, check, filter_shards

WHERE = "min_side >= 200 and caption_words >= 2"


def filtered(source: str, out: Path, **options: Any) -> dict[str, str]:
    """Filter; return what was written."""
    filter_shards(source, out, Recipe(where=WHERE), RunOptions(**options))
    return digests(out)


def everything(source: str, out: str) -> list[dict[str, str]]:
    """Call what starts processes; return what two runs wrote."""
    assert sum(shard.samples for shard in check(source, jobs=2).evidence.shards) == 60
    assert [row["n"] for row in bounded_map([{"n": n} for n in range(9)], double, "2GiB", 1)] == [
        2 * n for n in range(9)
    ]
    return [
        filtered(source, Path(out, "local"), workers=2),
        filtered(source, Path(out, "ray"), engine="ray"),
    ]


def double(rows: Any) -> Any:
    """Double a number."""
    return {"n": [2 * n for n in rows["n"]]}


def state() -> dict[str, Any]:
    """Return what a forked child would inherit."""
    return {
        "handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "threads": [thread.name for thread in threading.enumerate()],
        "system's threads": len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0,
        "open files": sorted(os.listdir("/dev/fd")),
        "variables": dict(os.environ),
        "Ray": "ray" in sys.modules,
    }


def forks(source: str, out: str) -> None:
    """Work on this machine and on a cluster, then fork."""
    before = state()
    filtered(source, Path(out, "local"), workers=2)
    filtered(source, Path(out, "ray"), engine="ray")
    assert state() == before
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map(abs, [-1]) == [1]


def in_ray(source: str, out: str) -> None:
    """Work on a cluster that the program has joined: itself, in a task, and in an actor."""
    import ray

    ray.init(log_to_driver=False, logging_level="ERROR")

    class Actor:
        def filtered(self, out: str) -> dict[str, str]:
            return filtered(source, Path(out), engine="ray")

    found = ray.get(ray.remote(everything).remote(source, f"{out}/task"))
    actor: Any = ray.remote(Actor).remote()
    found.append(ray.get(actor.filtered.remote(f"{out}/actor")))
    ray.kill(actor)  # it holds one of two cores
    found.append(filtered(source, Path(out, "program"), engine="ray"))
    assert ray.is_initialized()
    assert all(each == found[0] for each in found)


def in_loader(source: str, out: str) -> None:
    """Work in a daemonic process, which multiprocessing lets have no children."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Once(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            assert multiprocessing.current_process().daemon
            first, second = everything(source, out)
            return torch.tensor(first == second)

    assert list(DataLoader(Once(), num_workers=1)) == [torch.tensor([True])]


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
