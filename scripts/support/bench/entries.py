"""What is compared with what, and how good it has to be."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Entry:
    """One comparison: the same shards, ours and a peer in turn, each run in a fresh process."""

    name: str
    title: str
    ours: str  # a job of jobs.py
    peer: str  # a job of jobs.py, "tar" for GNU tar, or "bound" for a fixed number
    shards: str
    goal: float
    at_most: bool = False  # the goal is an upper bound, and the ratio ours / peer; else a lower one, and peer / ours
    measure: str = "cpu_seconds"  # of one process; not moved by what else the machine does
    unit: str = "CPU s"
    runs: int = 5
    first: int | None = None  # only so many of the shards
    cold: bool = False  # the page cache is emptied of the shards before each run
    times: int = 1  # ours gets the shards so many times over
    bound: float = 0.0  # where the peer is a fixed number
    judged: Literal["ratio", "ours"] = "ratio"


ENTRIES = [
    Entry(
        "names-small",
        "list and group, 20 KB samples, beside iterating webdataset 1.x",
        "names",
        "webdataset",
        "small",
        20,
    ),
    Entry("names-small-tar", "list and group, 20 KB samples, beside GNU tar tf", "names", "tar", "small", 1),
    Entry(
        "names-large",
        "list and group, 1.5 MB samples, beside iterating webdataset 1.x",
        "names",
        "webdataset",
        "large",
        80,
    ),
    Entry("headers-names", "headers beside names, 20 KB samples", "headers", "names", "small", 3, at_most=True),
    Entry(
        "headers-memory",
        "peak memory of headers over 400,000 samples, beside the bound",
        "headers",
        "bound",
        "small",
        1,
        at_most=True,
        measure="peak_mb",
        unit="MB",
        runs=1,
        times=10,
        bound=200,
    ),
    Entry(
        "headers-growth",
        "peak memory of headers over 400,000 samples, beside 40,000",
        "headers",
        "headers",
        "small",
        1.1,
        at_most=True,
        measure="peak_mb",
        unit="MB",
        runs=1,
        times=10,
    ),
    Entry(
        "full-small",
        "full, 20 KB pictures, beside webdataset 1.x and Pillow's load",
        "full",
        "webdataset+pillow",
        "small",
        2.5,
        first=2,
    ),
    Entry(
        "full-large",
        "full, 1.5 MB pictures, beside webdataset 1.x and Pillow's load",
        "full",
        "webdataset+pillow",
        "large",
        2.5,
        first=1,
        runs=3,
    ),
    Entry(
        "damage",
        "pictures with 8 damaged bytes found, beside Pillow's load",
        "full",
        "webdataset+pillow",
        "damaged",
        70,
        measure="flagged",
        unit="%",
        runs=1,
        judged="ours",
    ),
    Entry(
        "damage-run",
        "pictures with a damaged run of 8 bytes found, beside Pillow's load",
        "full",
        "webdataset+pillow",
        "damaged-run",
        10,
        measure="flagged",
        unit="%",
        runs=1,
    ),
    Entry(
        "cold-large",
        "disk read by names, 1.5 MB samples, beside all bytes",
        "names",
        "read",
        "large",
        0.02,
        at_most=True,
        measure="read_mb",
        unit="MB",
        cold=True,
        runs=1,
    ),
    Entry(
        "cold-small",
        "names from a cold cache, 20 KB samples, beside a plain read",
        "names",
        "read",
        "small",
        1.8,
        at_most=True,
        measure="seconds",
        unit="s",
        cold=True,
        runs=7,
    ),
    Entry(
        "decode-fast-12mp",
        "decode and resize 12 megapixels to 224, beside Pillow and torchvision",
        "decode-fast",
        "decode-pillow",
        "12mp",
        7,
        measure="cpu_seconds",
    ),
    Entry(
        "decode-floor-12mp",
        "the same, beside reading the entropy-coded bytes alone",
        "decode-fast",
        "decode-entropy",
        "12mp",
        1.4,
        at_most=True,
        measure="cpu_seconds",
    ),
    Entry(
        "decode-exact-2mp",
        "decode exactly and resize 2 megapixels to 224, beside Pillow and torchvision",
        "decode-exact",
        "decode-pillow",
        "2mp",
        3,
        measure="cpu_seconds",
    ),
    Entry(
        "decode-memory",
        "extra memory of decoding and resizing 12 megapixels, beside the bound of 10 MiB",
        "decode-fast",
        "bound",
        "12mp",
        1,
        at_most=True,
        measure="extra_mb",
        unit="MB",
        runs=1,
        bound=10.48576,
    ),
]
