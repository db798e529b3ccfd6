"""Shards in an object store behind a network, next to the same shards on this machine.

A store of our own on loopback adds the latency and limits the bandwidth. It takes a part of the
processor, which a real one does not. No local disk is faster than the line here: the peer's time is
at least that in which the line passes the bytes of the shards.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from support.bench import filtering
from support.bench.object_store import BANDWIDTH, LATENCY

MakeClock = Callable[[], Any]
_STORE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "object_store.py")
_ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@contextmanager
def served_objects(paths: Sequence[str], bandwidth: float = BANDWIDTH) -> Iterator[list[str]]:
    """Serve the shards as objects, and give their urls. ``bandwidth``: bytes a second."""
    words = [sys.executable, _STORE, os.path.dirname(paths[0]), str(LATENCY), str(bandwidth)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            os.environ.update(_ACCOUNT, AWS_ENDPOINT_URL=url.rstrip("/"))
            yield [f"s3://bench/{os.path.basename(path)}" for path in paths]
        finally:
            process.kill()


def names(paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """`wdsflow validate --level names`, with its usual number of processes."""
    from wdsflow.validate import check

    importlib.import_module("s3fs")
    timer = clock()
    report = check(paths, readers=["open-clip-3.3"], level="names")
    result: dict[str, Any] = timer.stop(samples=report.evidence.samples)
    return result


def filtered(paths: Sequence[str], clock: MakeClock, folder: str) -> dict[str, Any]:
    """`wdsflow filter` by header and text, with its usual number of processes."""
    from wdsflow.filtering.run_filter import filter_shards
    from wdsflow.filtering.run_options import RunOptions

    importlib.import_module("s3fs")
    recipe, _ = filtering.recipe_and_options(filtering.WHERE)
    timer = clock()
    report = filter_shards(paths, folder, recipe, RunOptions())
    result: dict[str, Any] = timer.stop(samples=report.total("samples"), seen=report.total("kept"))
    return result


def fed(paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """Run an epoch of `wdsflow.feed` for training.

    The clock starts at the first request for contents: the samples are counted before.
    """
    import open_clip

    import wdsflow

    importlib.import_module("s3fs")
    transform = open_clip.image_transform(224, is_train=True)
    options = wdsflow.FeedOptions(status_every=0.0)
    feed = wdsflow.feed(paths, batch_size=256, transform=transform, options=options)
    timer = clock()
    result: dict[str, Any] = timer.stop(samples=sum(len(texts) for _, texts in feed))
    feed.close()
    return result


def cached(paths: Sequence[str], clock: MakeClock, folder: str) -> dict[str, Any]:
    """Run a later epoch of `wdsflow.feed` for training, with all shards local.

    They are in its cache, or were on this machine from the start.
    """
    import open_clip

    import wdsflow

    importlib.import_module("s3fs")
    feed = wdsflow.feed(
        paths,
        batch_size=256,
        transform=open_clip.image_transform(224, is_train=True),
        cache=folder,
        cache_size="100GB",
        options=wdsflow.FeedOptions(status_every=0.0),
    )
    for _ in feed:
        pass
    timer = clock()
    result: dict[str, Any] = timer.stop(samples=sum(len(texts) for _, texts in feed))
    feed.close()
    return result


def run(work: str, location: str, paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """Return the figures of "names", "feed", "cached" or "filter", "here" or in the "store"."""
    with filtering.folder_near(paths) as folder:

        def measured(urls: Sequence[str]) -> dict[str, Any]:
            if work == "filter":
                return filtered(urls, clock, os.path.join(folder, "out"))
            if work == "cached":
                return cached(urls, clock, os.path.join(folder, "cache"))
            return names(urls, clock) if work == "names" else fed(urls, clock)

        if location == "store":
            with served_objects(paths) as urls:
                return measured(urls)
        result = measured(paths)
    line = sum(map(os.path.getsize, paths)) / BANDWIDTH
    return {**result, "seconds": max(result["seconds"], line), "local_seconds": result["seconds"]}
