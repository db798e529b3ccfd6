"""Resharding, compared with a plain copy of the same shards.

Both are timed until all bytes are on the disk, from a warm page cache.
"""

import os
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from support.bench.filtering import folder_near

MakeClock = Callable[[], Any]


def ours(paths: Sequence[str], clock: MakeClock, **wishes: Any) -> dict[str, Any]:
    """`wdsflow reshard`, with its usual two threads."""
    import xxhash

    from wdsflow.reshaping.reshard import arrange, write_output
    from wdsflow.reshaping.reshard.run_reshard import reshard_shards

    del xxhash, arrange, write_output
    with folder_near(paths) as folder:
        timer = clock()
        report = reshard_shards(paths, os.path.join(folder, "out"), **wishes)
        result: dict[str, Any] = timer.stop(samples=report.samples_written)
    return result


def copy(paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """Copy by `cp`, and sync."""
    with folder_near(paths) as folder:
        timer = clock()
        subprocess.run(["cp", *paths, folder], check=True)
        subprocess.run(
            ["sync", *(os.path.join(folder, os.path.basename(path)) for path in paths)], check=True
        )
        result: dict[str, Any] = timer.stop()
    return result
