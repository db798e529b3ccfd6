"""Drawn landscapes with captions."""

import io
import random
from typing import NamedTuple

from PIL import Image, ImageDraw

Colour = tuple[int, int, int]

# Width and height, pixels.
SIZE = (256, 192)
# Colours at the top and at the bottom.
SKIES: dict[str, tuple[Colour, Colour]] = {
    "clear": ((120, 180, 245), (220, 235, 250)),
    "evening": ((70, 50, 110), (250, 160, 90)),
}
COLOURS: dict[str, Colour] = {
    "red": (200, 60, 50),
    "blue": (60, 90, 190),
    "white": (240, 235, 225),
    "yellow": (230, 190, 60),
}
# As many trees as a scene has.
NUMBERS = ["no", "one", "two", "three", "four"]


class Scene(NamedTuple):
    """One drawn sample."""

    jpeg: bytes
    caption: str


def draw(count: int, seed: int = 0) -> list[Scene]:
    """Draw ``count`` scenes; the same seed gives the same scenes."""
    rng = random.Random(seed)
    skies = {name: _gradient(top, bottom) for name, (top, bottom) in SKIES.items()}
    return [_scene(rng, skies) for _ in range(count)]


def _gradient(top: Colour, bottom: Colour) -> Image.Image:
    """Return a sky: two pixels, stretched to a picture."""
    strip = Image.new("RGB", (1, 2))
    strip.putpixel((0, 0), top)
    strip.putpixel((0, 1), bottom)
    return strip.resize(SIZE, Image.Resampling.BILINEAR)


def _scene(rng: random.Random, skies: dict[str, Image.Image]) -> Scene:
    """Draw a scene.

    The order of the random numbers must not change: the same seed gives the same bytes in every
    version.
    """
    sky = rng.choice(sorted(skies))
    colour = rng.choice(sorted(COLOURS))
    trees = rng.randrange(len(NUMBERS))

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
    return Scene(buffer.getvalue(), _caption(sky, colour, trees))


def _caption(sky: str, colour: str, trees: int) -> str:
    number = NUMBERS[trees]
    tree_word = "tree" if trees == 1 else "trees"
    sky_words = "in the evening" if sky == "evening" else "under a clear sky"
    return f"a {colour} house with {number} {tree_word} on a green hill {sky_words}"


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
