"""The measured jobs: `python jobs.py JOB '[URL, ...]'` prints one JSON line.

Each job runs in its own process.

The clock runs from the call to its end; the interpreter's start and the imports stand outside of
it. The number of samples is checked by the caller, so that nothing is fast by doing less.
"""

import functools
import io
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from support.bench import (
    cluster,
    decoding,
    filtering,
    grafting,
    later_epochs,
    packing,
    pictures,
    remote,
    resharding,
    resizing,
    semantic,
)

Result = dict[str, Any]


def ours(level: Literal["names", "headers", "full"], paths: list[str]) -> Result:
    """`wdsflow.validate.check` in one process."""
    from wdsflow.validate import check

    clock = Clock()
    report = check(paths, readers=["open-clip-3.3"], level=level, jobs=1)
    return clock.stop(samples=report.evidence.samples, flagged=_flagged(report))


def _flagged(report: Any) -> int:
    names = ("image.damaged", "image.undecodable", "image.cut", "image.not-image")
    return sum(shard.tally(name).count for shard in report.evidence.shards for name in names)


def webdataset_keys(paths: list[str]) -> Result:
    """Webdataset's samples, iterated without decoding anything."""
    import webdataset

    clock = Clock()
    samples = sum(1 for _ in webdataset.WebDataset(paths, shardshuffle=False))
    return clock.stop(samples=samples)


def webdataset_pillow(paths: list[str]) -> Result:
    """Read webdataset's samples, and load each picture with Pillow.

    This finds all damage that Pillow can find.
    """
    import webdataset
    from PIL import Image

    clock = Clock()
    samples = flagged = 0
    for sample in webdataset.WebDataset(paths, shardshuffle=False):
        samples += 1
        try:
            Image.open(io.BytesIO(sample["jpg"])).load()
        except Exception:  # noqa: BLE001 - whatever Pillow raises counts as found
            flagged += 1
    return clock.stop(samples=samples, flagged=flagged)


def plain_read(paths: list[str]) -> Result:
    """Every byte of the files, read in blocks of 1 MiB."""
    clock = Clock()
    buffer = memoryview(bytearray(1 << 20))
    for path in paths:
        with Path(path).open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return clock.stop()


class Clock:
    """Measures time, processor time and bytes read, from when it is made."""

    def __init__(self) -> None:
        self.read = _bytes_from_disk()
        self.cpu = time.process_time()
        self.wall = time.perf_counter()

    def stop(self, **more: int) -> Result:
        """Return what was used since the start, and the process's peak memory."""
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # Bytes there, KiB elsewhere.
        kib = peak // 1024 if sys.platform == "darwin" else peak
        read = _bytes_from_disk() - self.read
        return {
            "seconds": wall,
            "cpu_seconds": cpu,
            "peak_mb": kib * 1024 / 1e6,
            "read_mb": read / 1e6,
            **more,
        }


def _bytes_from_disk() -> int:
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return int(next(line.split()[1] for line in lines if line.startswith("read_bytes")))


JOBS: dict[str, Callable[[list[str]], Result]] = {
    "names": lambda paths: ours("names", paths),
    "headers": lambda paths: ours("headers", paths),
    "full": lambda paths: ours("full", paths),
    "webdataset": webdataset_keys,
    "webdataset+pillow": webdataset_pillow,
    "read": plain_read,
    "filter": lambda paths: filtering.ours(paths, Clock),
    "filter-webdataset": lambda paths: filtering.webdataset(paths, Clock),
    "filter-by-ledger": lambda paths: filtering.by_ledger(paths, Clock),
    "cp": lambda paths: filtering.copy(paths, Clock),
    "reshard": lambda paths: resharding.ours(paths, Clock, shards=7),
    "reshard-shuffle": lambda paths: resharding.ours(paths, Clock, shards=7, shuffle=1),
    "cp-synced": lambda paths: resharding.copy(paths, Clock),
    "pack": lambda paths: packing.ours(paths, Clock),
    "tar-cf-synced": lambda paths: packing.tar(paths, Clock),
    "graft": lambda paths: grafting.ours(paths, Clock),
    "resize": lambda paths: resizing.ours(paths, Clock, "fast"),
    "resize-exact": lambda paths: resizing.ours(paths, Clock, "exact"),
    "resize-pillow": lambda paths: resizing.loop(paths, Clock, resizing.pillow),
    "resize-opencv": lambda paths: resizing.loop(paths, Clock, resizing.opencv),
    "resize-fast-psnr": lambda paths: resizing.fidelity(paths, "fast"),
    "resize-exact-psnr": lambda paths: resizing.fidelity(paths, "exact"),
    **{
        f"{location}-{work}": functools.partial(remote.run, work, location, clock=Clock)
        for work in ("names", "filter", "feed", "cached")
        for location in ("store", "here")
    },
    **{
        f"later-epoch-{work}": functools.partial(later_epochs.run, work, clock=Clock)
        for work in later_epochs.WORKS
    },
    "semantic": lambda _: semantic.ours(Clock),
    "filter-pixels": lambda paths: pictures.ours(paths, Clock),
    "filter-pixels-damaged": lambda paths: pictures.ours_damaged(paths, Clock),
    "filter-one-core": lambda paths: cluster.on_one_core(paths, Clock),
    "filter-ray": lambda paths: cluster.on_ray(paths, Clock),
    **{name: functools.partial(decoding.run, name, clock=Clock) for name in decoding.WORKS},
}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](json.loads(sys.argv[2]))))
