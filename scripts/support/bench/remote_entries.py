"""Shards in an object store next to local ones."""

from .entry import Entry


def _remote(name: str, title: str, work: str, shards: str, goal: float) -> Entry:
    return Entry(
        name,
        title,
        f"store-{work}",
        f"here-{work}",
        shards,
        goal,
        at_most=True,
        measure="seconds",
        unit="s",
        runs=3,
    )


def _later_epoch(name: str, title: str, ours: str, peer: str, goal: float) -> Entry:
    return Entry(
        name,
        title,
        f"later-epoch-{ours}",
        f"later-epoch-{peer}",
        "small",
        goal,
        at_most=True,
        measure="seconds",
        unit="s",
        runs=3,
        first=2,
    )


REMOTE = [
    _remote(
        "remote-names-many",
        "time to list and group, 20 KB samples in S3, compared with local ones at the speed of the line",
        "names",
        "many",
        1.2,
    ),
    _remote(
        "remote-names-large",
        "the same with 1.5 MB samples, of which only the headers are fetched",
        "names",
        "large",
        1.2,
    ),
    _remote(
        "remote-filter-many",
        "time to filter by header and text, 20 KB samples in S3, compared with local ones at the speed of the line",
        "filter",
        "many",
        1.3,
    ),
    _remote(
        "remote-feed-small",
        "time of an epoch of `wdsflow.feed`, 20 KB pictures in S3, compared with local ones at the speed of the line",
        "feed",
        "small",
        1.25,
    ),
    Entry(
        "remote-cached-small",
        "time of a later epoch with all shards of S3 in the feed's cache, compared with local ones",
        "store-cached",
        "here-cached",
        "small",
        # 0.98x of the speed.
        1.02,
        at_most=True,
        measure="seconds",
        unit="s",
    ),
    _later_epoch(
        "remote-later-cached",
        "time of a later epoch on a line of 8 MB/s with all shards in the cache, compared with no cache",
        "cached",
        "uncached",
        0.6,
    ),
    _later_epoch(
        "remote-later-half",
        "the same with half of them in the cache",
        "half-cached",
        "uncached",
        0.6,
    ),
    _later_epoch(
        "remote-later-webdataset",
        "the same with all of them, compared with webdataset's cache_dir in a DataLoader",
        "cached",
        "webdataset",
        1.0,
    ),
]
