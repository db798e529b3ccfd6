"""Example shards to try the commands on: drawn landscapes with captions, made on this machine without a network.

    python -m wdsflow.example_shards shards

writes four shards of ten samples each. Their captions are in json members, as many downloaders
write them, so OpenCLIP's default settings would hang on them. All pages of the documentation use
these shards.
"""

import io
import json
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw

from wdsflow.pieces.tar_members import member
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.source.base import Source
from wdsflow.text.shell import quote_path

SAMPLES, SHARDS = 40, 4
SIZE = (256, 192)
# Colours at the top and at the bottom.
SKIES = {"clear": ((120, 180, 245), (220, 235, 250)), "evening": ((70, 50, 110), (250, 160, 90))}
COLOURS = {
    "red": (200, 60, 50),
    "blue": (60, 90, 190),
    "white": (240, 235, 225),
    "yellow": (230, 190, 60),
}
WORDS = ["no", "one", "two", "three", "four"]
Colour = tuple[int, int, int]


class Scene(NamedTuple):
    """One drawn sample."""

    jpeg: bytes
    caption: str


def main(arguments: Sequence[str]) -> int:
    """Write the shards into a new folder, "shards" unless another is named; return the exit status."""
    folder = Path(arguments[0] if arguments else "shards")
    if len(arguments) > 1 or str(folder).startswith("-"):
        print("usage: python -m wdsflow.example_shards [FOLDER]", file=sys.stderr)
        return 2
    try:
        write_examples(folder, draw(SAMPLES))
    except FileExistsError:
        other = quote_path(f"{folder}-2")
        print(f"{folder} exists already; in another folder:", file=sys.stderr)
        print(f"  python -m wdsflow.example_shards {other}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"cannot write {folder}: {error.strerror}", file=sys.stderr)
        return 2
    print(f"{folder}: {SAMPLES} drawings with captions in json, in {SHARDS} shards")
    print(f"next: wdsflow validate {quote_path(f'{folder}/{{000..{SHARDS - 1:03d}}}.tar')}")
    return 0


def write_examples(folder: Path, scenes: Sequence[Scene]) -> None:
    """Write scenes as ``KEY.jpg`` and ``KEY.json`` into a new folder; captions are the json's ``description``.

    Raises FileExistsError if the folder is there, and OSError.
    """
    folder.mkdir(parents=True)
    count = -(-len(scenes) // SHARDS)
    for shard in range(SHARDS):
        first = shard * count
        numbered = enumerate(scenes[first : first + count], start=first)
        write_pieces(folder / f"{shard:03d}.tar", Source(), _members(numbered))


def _members(numbered: Iterable[tuple[int, Scene]]) -> Iterator[bytes]:
    for number, scene in numbered:
        metadata = {"description": scene.caption, "source": "drawn"}
        yield member(f"{number:06d}.jpg", scene.jpeg)
        yield member(f"{number:06d}.json", json.dumps(metadata).encode())


def draw(count: int, seed: int = 0) -> list[Scene]:
    """Draw ``count`` scenes; the same seed gives the same scenes."""
    rng = random.Random(seed)
    skies = {name: _gradient(*ends) for name, ends in SKIES.items()}
    return [_scene(rng, skies) for _ in range(count)]


def _gradient(top: Colour, bottom: Colour) -> Image.Image:
    strip = Image.new("RGB", (1, 2))
    strip.putpixel((0, 0), top)
    strip.putpixel((0, 1), bottom)
    return strip.resize(SIZE, Image.Resampling.BILINEAR)


def _scene(rng: random.Random, skies: dict[str, Image.Image]) -> Scene:
    """Draw a scene. The order of the random numbers stays: the same seed gives the same bytes in every version."""
    sky = rng.choice(sorted(skies))
    colour = rng.choice(sorted(COLOURS))
    trees = rng.randrange(len(WORDS))
    image = skies[sky].copy()
    pen = ImageDraw.Draw(image)
    _draw_sun(pen, rng)
    _draw_hill(pen, rng, shade=90)
    _draw_hill(pen, rng, shade=120)
    _draw_house(pen, rng, COLOURS[colour])
    for _ in range(trees):
        _draw_tree(pen, rng)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=88)
    tree_word = "tree" if trees == 1 else "trees"
    sky_words = "in the evening" if sky == "evening" else "under a clear sky"
    caption = f"a {colour} house with {WORDS[trees]} {tree_word} on a green hill {sky_words}"
    return Scene(buffer.getvalue(), caption)


def _draw_sun(pen: ImageDraw.ImageDraw, rng: random.Random) -> None:
    x = rng.randrange(30, SIZE[0] - 30)
    pen.ellipse((x - 16, 16, x + 16, 48), fill=(255, 235, 150))


def _draw_hill(pen: ImageDraw.ImageDraw, rng: random.Random, *, shade: int) -> None:
    """Draw a hill, the upper part of an ellipse that is larger than the picture."""
    width, height = SIZE
    top = rng.randrange(100, 130)
    left = rng.randrange(-60, 60) - 80
    green = shade + rng.randrange(20)
    pen.ellipse((left, top, left + width + 140, height + 160), fill=(50, green, 60))


def _draw_house(pen: ImageDraw.ImageDraw, rng: random.Random, colour: Colour) -> None:
    """Draw a house: walls, roof and door."""
    x = rng.randrange(20, SIZE[0] - 80)
    y = rng.randrange(115, 140)
    pen.rectangle((x, y, x + 44, y + 32), fill=colour)
    pen.polygon([(x - 6, y), (x + 22, y - 22), (x + 50, y)], fill=(90, 60, 50))
    pen.rectangle((x + 16, y + 14, x + 28, y + 32), fill=(60, 40, 30))


def _draw_tree(pen: ImageDraw.ImageDraw, rng: random.Random) -> None:
    """Draw a tree: trunk and crown."""
    x = rng.randrange(10, SIZE[0] - 10)
    y = rng.randrange(130, 165)
    green = 100 + rng.randrange(50)
    pen.rectangle((x - 2, y, x + 2, y + 18), fill=(80, 55, 35))
    pen.ellipse((x - 12, y - 22, x + 12, y + 6), fill=(30, green, 40))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
