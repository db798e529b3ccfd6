"""Kill a run that writes shards, at any moment, and again."""

import multiprocessing
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.filtering.shards import digests

KILLS = int(os.environ.get("WDSFLOW_KILLS", "10"))


def killed_again_and_again(run: Callable[[], object], out: Path, modules: list[str]) -> None:
    """Assert that a run that is killed repeatedly ends with the bytes of an undisturbed run.

    A file that has its final name must be complete at any time.

    ``run`` writes into ``out``; it is pickled. ``modules`` are imported before the clock runs.
    """
    begun = time.monotonic()
    run()
    longest, whole = time.monotonic() - begun, digests(out)
    shutil.rmtree(out)
    context = multiprocessing.get_context("forkserver")  # children that have imported everything
    context.set_forkserver_preload(modules)
    chance, killed = random.Random(1), 0
    for _ in range(10 * KILLS):
        if killed >= KILLS // 2:
            break
        child = context.Process(target=run)
        child.start()
        child.join(chance.uniform(0, longest))
        child.kill()
        child.join()
        for name, digest in (digests(out) if out.exists() else {}).items():
            assert not name.endswith(".tar") or name.startswith(".wdsflow") or digest == whole[name]
        if child.exitcode == 0:
            assert digests(out) == whole
            shutil.rmtree(out)
            longest *= 0.7
        else:
            killed += 1
            longest *= 1.1
    run()
    assert digests(out) == whole
    assert killed >= KILLS // 2
