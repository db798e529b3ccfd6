"""Filtering next to a webdataset loop, Data-Juicer and `cp`."""

from .entry import Entry


def _resize(name: str, title: str, mode: str, goal: float, peer: str = "pillow") -> Entry:
    return Entry(
        name,
        f"images made smaller, {title}",
        f"resize{mode}",
        f"resize-{peer}",
        "12mp",
        goal,
        runs=3,
        first=2,
    )


def _psnr(name: str, title: str, mode: str, goal: float) -> Entry:
    job = f"resize-{mode}-psnr"
    return Entry(
        name, title, job, "bound", "12mp", 1, runs=1, first=2, measure="psnr", unit="dB", bound=goal
    )


FILTERS = [
    Entry(
        "filter-small",
        "filter by header and text, half of the 20 KB samples stay, compared with webdataset, Pillow and TarWriter",
        "filter",
        "filter-webdataset",
        "small",
        12,
        runs=3,
    ),
    Entry(
        "filter-large",
        "the same with 1.5 MB samples",
        "filter",
        "filter-webdataset",
        "large",
        5,
        runs=2,
    ),
    Entry(
        "filter-growth",
        "peak memory of the filter over 80 shards, compared with 8",
        "filter",
        "filter",
        "small",
        1.1,
        at_most=True,
        measure="peak_mb",
        unit="MB",
        runs=1,
        times=10,
    ),
    Entry(
        "filter-by-ledger",
        "time of a filter by a ledger, 1.5 MB samples, synced, compared with cp of the same bytes, not synced",
        "filter-by-ledger",
        "cp",
        "large",
        1 / 0.6,
        at_most=True,
        measure="seconds",
        unit="s",
        runs=3,
        first=4,
    ),
    _resize(
        "resize-12mp",
        "to 512 pixels, 12 megapixels, compared with webdataset, Pillow's Lanczos and TarWriter",
        "",
        4,
    ),
    _resize("resize-12mp-exact", "the same, decoded at full size", "-exact", 2),
    _resize(
        "resize-12mp-opencv",
        "the same in mode fast, compared with OpenCV as img2dataset uses it",
        "",
        1.5,
        "opencv",
    ),
    _psnr(
        "resize-psnr",
        "PSNR to Lanczos at full size of the 512 pixels of 12 megapixels, mode fast",
        "fast",
        35,
    ),
    _psnr("resize-psnr-exact", "the same, decoded at full size", "exact", 40),
    Entry(
        "semantic-duplicates",
        "embeddings compared with each other on two cores, compared with NeMo Curator's nightly floor on 8 GPUs",
        "semantic",
        "bound",
        "small",
        0.05,
        runs=1,
        first=1,
        measure="samples_per_s",
        unit="samples/s",
        bound=183_000,
    ),
    Entry(
        "filter-pixels-small",
        "filter by size, aspect and blankness, 20 KB pictures, compared with Data-Juicer with one process",
        "filter-pixels",
        "data-juicer",
        "small",
        3,
        runs=1,
        first=1,
    ),
    Entry(
        "filter-pixels-2mp",
        "the same with 2 megapixels",
        "filter-pixels",
        "data-juicer",
        "2mp",
        3,
        runs=1,
    ),
    Entry(
        "filter-damaged",
        "valid pictures lost if 2 of 1,000 are damaged, compared with Data-Juicer at its defaults",
        "filter-pixels-damaged",
        "data-juicer-damaged",
        "small",
        0,
        at_most=True,
        measure="lost",
        unit="samples",
        runs=1,
        first=1,
        judged="ours",
    ),
]
