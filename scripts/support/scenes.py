"""Little landscapes with captions, drawn from a seed: enough like a data set, and nobody's property."""

import io
import random
from typing import NamedTuple

from PIL import Image, ImageDraw

SIZE = (256, 192)
SKIES = {"clear": ((120, 180, 245), (220, 235, 250)), "evening": ((70, 50, 110), (250, 160, 90))}
COLOURS = {"red": (200, 60, 50), "blue": (60, 90, 190), "white": (240, 235, 225), "yellow": (230, 190, 60)}
WORDS = ["no", "one", "two", "three", "four"]


class Scene(NamedTuple):
    """One drawn sample."""

    jpeg: bytes
    caption: str


def draw(count: int, seed: int = 0) -> list[Scene]:
    """Draw ``count`` scenes; the same seed gives the same scenes."""
    rng = random.Random(seed)
    skies = {name: _gradient(*ends) for name, ends in SKIES.items()}
    return [_scene(rng, skies) for _ in range(count)]


def _gradient(top: tuple[int, int, int], bottom: tuple[int, int, int]) -> Image.Image:
    strip = Image.new("RGB", (1, 2))
    strip.putpixel((0, 0), top)
    strip.putpixel((0, 1), bottom)
    return strip.resize(SIZE, Image.Resampling.BILINEAR)


def _scene(rng: random.Random, skies: dict[str, Image.Image]) -> Scene:
    sky, colour, trees = rng.choice(sorted(skies)), rng.choice(sorted(COLOURS)), rng.randrange(len(WORDS))
    image = skies[sky].copy()
    pen = ImageDraw.Draw(image)
    width, height = SIZE
    x = rng.randrange(30, width - 30)
    pen.ellipse((x - 16, 16, x + 16, 48), fill=(255, 235, 150))
    for shade in (90, 120):
        top = rng.randrange(100, 130)
        hill = rng.randrange(-60, 60)
        pen.ellipse((hill - 80, top, hill + width + 60, height + 160), fill=(50, shade + rng.randrange(20), 60))
    x, y = rng.randrange(20, width - 80), rng.randrange(115, 140)
    pen.rectangle((x, y, x + 44, y + 32), fill=COLOURS[colour])
    pen.polygon([(x - 6, y), (x + 22, y - 22), (x + 50, y)], fill=(90, 60, 50))
    pen.rectangle((x + 16, y + 14, x + 28, y + 32), fill=(60, 40, 30))
    for _ in range(trees):
        x, y = rng.randrange(10, width - 10), rng.randrange(130, 165)
        pen.rectangle((x - 2, y, x + 2, y + 18), fill=(80, 55, 35))
        pen.ellipse((x - 12, y - 22, x + 12, y + 6), fill=(30, 100 + rng.randrange(50), 40))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=88)
    tree = "tree" if trees == 1 else "trees"
    sky_words = "in the evening" if sky == "evening" else "under a clear sky"
    return Scene(buffer.getvalue(), f"a {colour} house with {WORDS[trees]} {tree} on a green hill {sky_words}")
