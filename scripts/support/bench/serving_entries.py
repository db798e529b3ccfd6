"""Serving a view next to serving files."""

from .entry import Entry

SERVING = [
    Entry(
        "serve-webdataset",
        "a set read by webdataset over HTTP, as a view of half of the 20 KB samples, compared with files that a cut wrote",
        "serve-webdataset",
        "serve-files-webdataset",
        "pairs",
        0.9,
        measure="seconds",
        unit="s",
        runs=5,
    ),
    Entry(
        "serve-download",
        "the same, downloaded by curl and discarded",
        "serve-curl",
        "serve-files-curl",
        "pairs",
        0.9,
        measure="seconds",
        unit="s",
        runs=5,
    ),
    Entry(
        "serve-resharded",
        "the same, in shards of 500 samples, compared with files that cut and reshard wrote",
        "serve-resharded",
        "serve-files-resharded",
        "pairs",
        0.9,
        measure="seconds",
        unit="s",
        runs=5,
    ),
]
