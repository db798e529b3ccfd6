"""A world of coloured shapes: what a scene says, and how it is drawn.

A scene holds one group of like objects, or two groups side by side. Its meaning is how many objects
of which colour and form stand where. Size, tilt, shade, background and exact places vary, and
captions never speak of them.
"""

import hashlib
import io
import math
import random
from collections.abc import Iterable
from typing import NamedTuple

from PIL import Image, ImageDraw

# Pixels of a picture, both ways.
SIDE = 128
COLOURS = {
    "red": (215, 45, 40),
    "orange": (240, 140, 30),
    "yellow": (240, 220, 50),
    "green": (50, 160, 70),
    "blue": (50, 90, 210),
    "purple": (140, 60, 170),
    "black": (25, 25, 30),
    "white": (245, 245, 240),
}
FORMS = ("circle", "square", "triangle", "star", "cross", "ring")
COUNTS = (1, 2, 3, 4)
# Where the middle of a group lies. A group fills a square of REGION, so that no place reaches far
# into another. Both are shares of the side.
PLACES = {
    "left": (0.25, 0.5),
    "right": (0.75, 0.5),
    "top": (0.5, 0.25),
    "bottom": (0.5, 0.75),
    "middle": (0.5, 0.5),
}
REGION = 0.48
PAIRS = (("left", "right"), ("top", "bottom"))
SHARE_OF_PAIRS = 0.6
# Share of all meanings.
HELD_OUT = 0.1


class Group(NamedTuple):
    """Like objects, close together."""

    number: int
    colour: str
    form: str
    place: str


# Of two groups the left or the upper one comes first, so equal meanings are equal scenes.
Scene = tuple[Group, ...]


def choose(rng: random.Random, *, held_out: bool) -> Scene:
    """Choose a scene whose meaning is one of those held out, or is none of them."""
    while True:
        scene = _random_scene(rng)
        if is_held_out(scene) == held_out:
            return scene


def is_held_out(scene: Scene) -> bool:
    """Return whether this combination of attributes is kept from training."""
    digest = hashlib.sha256(repr([tuple(group) for group in scene]).encode()).digest()
    return int.from_bytes(digest[:4], "big") < HELD_OUT * 2**32


def jpeg(scene: Scene, rng: random.Random) -> bytes:
    """Draw a scene as a JPEG."""
    buffer = io.BytesIO()
    draw(scene, rng).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def draw(scene: Scene, rng: random.Random) -> Image.Image:
    """Draw a scene; two pictures of one scene differ in all that captions do not speak of."""
    grey = rng.uniform(105, 165)
    image = Image.new("RGB", (SIDE, SIDE), _rgb(grey + rng.uniform(-12, 12) for _ in range(3)))
    pen = ImageDraw.Draw(image)
    for group in scene:
        _draw_group(pen, group, rng)
    return image


def _random_scene(rng: random.Random) -> Scene:
    if rng.random() >= SHARE_OF_PAIRS:
        return (_group(rng, rng.choice(list(PLACES))),)
    while True:
        places = rng.choice(PAIRS)
        first, second = _group(rng, places[0]), _group(rng, places[1])
        # Of one kind they would be one torn group.
        if (first.colour, first.form) != (second.colour, second.form):
            return first, second


def _group(rng: random.Random, place: str) -> Group:
    return Group(rng.choice(COUNTS), rng.choice(list(COLOURS)), rng.choice(FORMS), place)


def _draw_group(pen: ImageDraw.ImageDraw, group: Group, rng: random.Random) -> None:
    step, radius = REGION / 2, rng.uniform(0.08, 0.1)
    shade = _rgb(value + rng.uniform(-18, 18) for value in COLOURS[group.colour])
    # A pixel lies between objects at least.
    spare = step / 2 - radius * LONGEST - 1 / SIDE
    loose = 0.3 * step if group.number == 1 else 0.0
    middle = [value + rng.uniform(-loose, loose) for value in PLACES[group.place]]
    for across, down in rng.choice(ARRANGEMENTS[group.number]):
        x = middle[0] + across * step + rng.uniform(-spare, spare)
        y = middle[1] + down * step + rng.uniform(-spare, spare)
        _draw_object(
            pen, group.form, (x * SIDE, y * SIDE, radius * SIDE), rng.uniform(-0.25, 0.25), shade
        )


def _draw_object(
    pen: ImageDraw.ImageDraw,
    form: str,
    where: tuple[float, float, float],
    tilt: float,
    shade: tuple[int, int, int],
) -> None:
    x, y, radius = where
    box = (x - radius, y - radius, x + radius, y + radius)
    if form == "circle":
        pen.ellipse(box, fill=shade)
    elif form == "ring":
        pen.ellipse(box, outline=shade, width=round(radius * 0.45))
    else:
        corners = [(far * radius, turn + tilt) for far, turn in OUTLINES[form]]
        pen.polygon(
            [(x + far * math.sin(turn), y - far * math.cos(turn)) for far, turn in corners],
            fill=shade,
        )


def _cross(arm: float = 0.3, end: float = 1.05) -> list[tuple[float, float]]:
    half = [(-arm, end), (arm, end), (arm, arm), (end, arm), (end, -arm), (arm, -arm)]
    return [(math.hypot(x, y), math.atan2(x, y)) for x, y in half + [(-x, -y) for x, y in half]]


# Positions of the objects of a group, in halves of its square, from its middle: one, a row, a
# column or a diagonal of two, three quarters, all four.
_A, _B, _C, _D = (-0.5, -0.5), (0.5, -0.5), (-0.5, 0.5), (0.5, 0.5)
ARRANGEMENTS = {
    1: [[(0.0, 0.0)]],
    2: [[(-0.5, 0.0), (0.5, 0.0)], [(0.0, -0.5), (0.0, 0.5)], [_A, _D], [_B, _C]],
    3: [[_A, _B, _C], [_A, _B, _D], [_A, _C, _D], [_B, _C, _D]],
    4: [[_A, _B, _C, _D]],
}
# From the centre of any object to its furthest corner, in radii.
LONGEST = 1.1
# Corners of a form: distance from its centre in radii, and
# direction in radians, clockwise from above.
OUTLINES = {
    "square": [(LONGEST, math.pi * (k / 2 + 0.25)) for k in range(4)],
    "triangle": [(LONGEST, math.tau * k / 3) for k in range(3)],
    "star": [(0.45 if k % 2 else LONGEST, math.tau * k / 10) for k in range(10)],
    "cross": _cross(),
}


def _rgb(values: Iterable[float]) -> tuple[int, int, int]:
    red, green, blue = (min(255, max(0, round(value))) for value in values)
    return red, green, blue
