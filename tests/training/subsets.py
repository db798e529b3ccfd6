"""Shards that are scored for real, and what ``cut`` writes of them."""

from pathlib import Path

from tests.filtering.commands import run
from tests.training.shards import jpeg, write_tar

WIDTHS = (40, 64, 48, 80)
WHERE = "width > 50 and caption_words < 3"  # keeps 2 of 4, less those with three words


def members(shard: int, count: int, *, small: bool = False) -> list[tuple[str, bytes]]:
    """Return members of samples with images of four widths and short captions.

    A caption has one to three words; the first names the shard and the sample.
    """
    found = []
    for number in range(count):
        key = f"{shard:03d}{number:04d}"
        width = 32 if small else WIDTHS[number % 4]
        caption = " ".join(
            [f"{shard}/{number}", *["more"] * (number % 7 == 3), *["words"] * (number % 7 > 4)]
        )
        caption += " again" * (number % 7 == 6)
        found += [
            (f"{key}.jpg", jpeg(shard * 100 + number, (width, 32))),
            (f"{key}.txt", caption.encode()),
        ]
        found += [(f"{key}.json", b'{"n": 1}')] * (number % 3 == 0)
    return found


def write_scored(folder: Path, counts: list[int], scores: str = "width,caption_words") -> str:
    """Write shards and their scores; return the pattern for all shards.

    The third shard has small images.
    """
    for shard, count in enumerate(counts):
        write_tar(folder / "in" / f"{shard:04d}.tar", members(shard, count, small=shard == 2))
    data = f"{folder}/in/{{0000..{len(counts) - 1:04d}}}.tar"
    assert (
        run("measure", data, "-o", folder / "scored", "--scores", scores, "--jobs", 0).status == 0
    )
    return data


def cut(folder: Path, data: str, where: str, name: str = "cut") -> str:
    """Write what a predicate keeps; return its shards as OpenCLIP takes them."""
    done = run(
        "filter",
        data,
        "-o",
        folder / name,
        "--ledger",
        folder / "scored",
        "--where",
        where,
        "--jobs",
        0,
    )
    assert done.status == 0, done.err
    return "::".join(map(str, sorted((folder / name).glob("*.tar"))))
