"""A later epoch of training from an object store whose line is too slow, with and without a cache.

The line passes about half of the bytes that decoders can take. All get the same shards, transform
and number of decoding processes.
"""

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from support.bench import filtering
from support.bench.remote import served_objects

# Bytes a second.
SLOW_LINE = 8e6
BATCH, WORKERS = 256, 2

MakeClock = Callable[[], Any]


def cached(paths: Sequence[str], clock: MakeClock, folder: str) -> dict[str, Any]:
    """`wdsflow.feed` with a cache that holds all shards."""
    return _fed(paths, clock, cache=os.path.join(folder, "cache"), cache_size="100GB")


def half_cached(paths: Sequence[str], clock: MakeClock, folder: str) -> dict[str, Any]:
    """`wdsflow.feed` with a cache that holds half of the shards."""
    sizes = [os.path.getsize(path) for path in paths]
    half = sum(sizes) // 2 + max(sizes) // 10
    return _fed(paths, clock, cache=os.path.join(folder, "cache"), cache_size=half)


def uncached(paths: Sequence[str], clock: MakeClock, _folder: str) -> dict[str, Any]:
    """`wdsflow.feed` without a cache."""
    return _fed(paths, clock)


def _fed(paths: Sequence[str], clock: MakeClock, **cache: Any) -> dict[str, Any]:
    import open_clip

    import wdsflow

    importlib.import_module("s3fs")
    with served_objects(paths, SLOW_LINE) as urls:
        feed = wdsflow.feed(
            urls,
            batch_size=BATCH,
            transform=open_clip.image_transform(224, is_train=True),
            options=wdsflow.FeedOptions(status_every=0.0, decoders=WORKERS),
            **cache,
        )
        for _ in feed:
            pass
        begun = clock()
        result: dict[str, Any] = begun.stop(samples=sum(len(texts) for _, texts in feed))
        feed.close()
    return result


def webdataset_cache(paths: Sequence[str], clock: MakeClock, folder: str) -> dict[str, Any]:
    """Webdataset with its ``cache_dir``, which keeps all shards, in a DataLoader."""
    import open_clip
    import webdataset
    from torch.utils.data import DataLoader

    transform = open_clip.image_transform(224, is_train=True)
    with served_objects(paths, SLOW_LINE):
        urls = [
            f"{os.environ['AWS_ENDPOINT_URL']}/bench/{os.path.basename(path)}" for path in paths
        ]
        dataset = (
            webdataset.WebDataset(urls, cache_dir=folder, shardshuffle=len(urls))
            .decode("pilrgb")
            .to_tuple("jpg", "txt")
            .map_tuple(transform, str)
        )
        loader: Any = DataLoader(
            dataset, batch_size=BATCH, num_workers=WORKERS, persistent_workers=True
        )
        for _ in loader:
            pass
        begun = clock()
        result: dict[str, Any] = begun.stop(samples=sum(len(texts) for _, texts in loader))
    return result


WORKS = {
    "cached": cached,
    "half-cached": half_cached,
    "uncached": uncached,
    "webdataset": webdataset_cache,
}


def run(work: str, paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """Return the figures of a later epoch, by one of ``WORKS``."""
    with filtering.folder_near(paths) as folder:
        return WORKS[work](paths, clock, folder)
