"""Shards of the world of shapes with planted faults that only a model can see.

Also reads the scores that a run gave them.
"""

import io
import math
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from .tiny_clip.captions import caption
from .tiny_clip.shards import write_members
from .tiny_clip.world import Scene, choose, jpeg

SHARDS = 4
# Pixels.
FONT, MARGIN = 16, 4
# For a normal distribution: its standard deviation by its median distance from the median.
DEVIATION_BY_MEDIAN_DISTANCE = 1.4826


def shuffled_captions(folder: Path, *, samples: int, wrong: int, seed: int = 0) -> set[str]:
    """Write shards of scenes that were held out from training, some with a wrong caption.

    ``wrong`` samples have the caption of another scene. Returns their keys.
    """
    rng = random.Random(f"shuffled {seed}")
    drawn = [choose(rng, held_out=True) for _ in range(samples)]
    planted = _no_two_alike(drawn, wrong, rng)
    described = list(drawn)
    # Each planted sample gets the caption of the next, the last that of the first.
    for number, other in zip(planted, planted[1:] + planted[:1], strict=True):
        described[number] = drawn[other]
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(SHARDS):
        members: list[tuple[str, bytes]] = []
        for number in range(samples * shard // SHARDS, samples * (shard + 1) // SHARDS):
            members.append((f"{number:06d}.jpg", jpeg(drawn[number], rng)))
            members.append((f"{number:06d}.txt", caption(described[number], rng).encode()))
        write_members(folder / f"{shard:03d}.tar", members)
    return {f"{number:06d}" for number in planted}


def printed_captions(source: Path, folder: Path, *, printed: int, seed: int = 0) -> set[str]:
    """Copy shards with pictures of half the width and height, and print some captions.

    ``printed`` samples get their caption printed across the picture.

    Returns the keys of those. Half the size is a quarter of the time that it takes to look for
    text.
    """
    shards = {path.name: list(contents(path)) for path in sorted(source.glob("*.tar"))}
    everything = [key for shard in shards.values() for key, _, _ in shard]
    planted = set(random.Random(f"printed {seed}").sample(everything, printed))
    folder.mkdir(parents=True)
    for name, shard in shards.items():
        members = []
        for key, picture, text in shard:
            image = Image.open(io.BytesIO(picture)).convert("RGB").reduce(2)
            if key in planted:
                print_across(image, text)
            buffer = io.BytesIO()
            image.save(buffer, "JPEG", quality=90)
            members += [(f"{key}.jpg", buffer.getvalue()), (f"{key}.txt", text.encode())]
        write_members(folder / name, members)
    return planted


def print_across(image: Image.Image, text: str) -> None:
    """Print a text across a picture, broken into lines that fit its width."""
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(size=FONT)
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and pen.textlength(longer, font=font) <= image.width - 2 * MARGIN:
            lines[-1] = longer
        else:
            lines.append(word)
    pen.multiline_text(
        (MARGIN, MARGIN),
        "\n".join(lines),
        font=font,
        fill="white",
        stroke_width=1,
        stroke_fill="black",
    )


def ledger(folder: Path, score: str) -> dict[str, float | None]:
    """Return the value of a score for each key, from the ledgers in a run's folder.

    A value may be None.
    """
    table = duckdb.read_parquet(str(folder / ".wdsflow" / "ledger" / "*.parquet"))
    column = next(name for name in table.columns if name.partition("(")[0] == score)
    quoted = column.replace('"', '""')
    return dict(table.project(f'key, "{quoted}"').fetchall())


def histogram(values: dict[str, float], planted: set[str]) -> str:
    """Draw a histogram of the scores of good and planted samples.

    An o stands for up to ten good samples, an x for up to ten planted ones.
    """
    tenths = {key: math.floor(value * 10) for key, value in values.items()}
    lines = ["    score     good planted"]
    for tenth in range(min(tenths.values()), max(tenths.values()) + 1):
        bad = sum(tenths[key] == tenth for key in planted)
        good = sum(other == tenth for other in tenths.values()) - bad
        marks = "o" * math.ceil(good / 10) + "x" * math.ceil(bad / 10)
        lines.append(
            f"{tenth / 10:4.1f} to {(tenth + 1) / 10:4.1f} {good:5} {bad:7}  {marks}".rstrip()
        )
    return "\n".join(lines)


def area_under_roc(good: np.ndarray[Any, Any], bad: np.ndarray[Any, Any]) -> float:
    """Return the area under the ROC curve.

    That is how often the good sample has the higher score, over all pairs of a good one and a bad
    one. A tie counts half.
    """
    higher = good[:, None] > bad
    equal = good[:, None] == bad
    return float((higher + equal / 2).mean())


def threshold(scores: np.ndarray[Any, Any]) -> float:
    """Return a threshold below most good scores: the middle minus three times the usual spread.

    If most samples are good, few good ones are below it.

    The middle is the median, and the spread is taken from the median distance from it: bad ones far
    below hardly move either.
    """
    middle = np.median(scores)
    spread = DEVIATION_BY_MEDIAN_DISTANCE * np.median(abs(scores - middle))
    return round(float(middle - 3 * spread), 2)


def keys(folder: Path) -> set[str]:
    """Return the keys in the shards of a folder."""
    return {key for path in folder.glob("*.tar") for key, _, _ in contents(path)}


def contents(path: Path) -> Iterator[tuple[str, bytes, str]]:
    """Yield (key, jpeg, caption) of a shard whose captions each follow their picture.

    Shards written here have this order.
    """
    with tarfile.open(path) as tar:
        members = [(info.name, file.read()) for info in tar if (file := tar.extractfile(info))]
    for (name, picture), (_, text) in zip(members[::2], members[1::2], strict=True):
        yield name.removesuffix(".jpg"), picture, text.decode()


def _no_two_alike(drawn: list[Scene], number: int, rng: random.Random) -> list[int]:
    """Choose ``number`` scenes of which no two mean the same; return their indexes."""
    chosen: dict[Scene, int] = {}
    for index in rng.sample(range(len(drawn)), len(drawn)):
        if len(chosen) < number:
            chosen.setdefault(drawn[index], index)
    return list(chosen.values())
