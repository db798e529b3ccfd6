"""Describes a scene in words, in several phrasings.

Each phrasing names every attribute, so it has only one meaning.
"""

import random
from collections.abc import Iterator

from .world import Group, Scene

NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four"}
OPENINGS = ("", "a picture of ", "a drawing of ")
WHERE = {
    "left": ("on the left", "on the left side"),
    "right": ("on the right", "on the right side"),
    "top": ("at the top", "in the upper half"),
    "bottom": ("at the bottom", "in the lower half"),
    "middle": ("in the middle", "in the centre"),
}
BESIDE = {"left": "to the left of", "right": "to the right of", "top": "above", "bottom": "below"}


def caption(scene: Scene, rng: random.Random) -> str:
    """Describe a scene in one of its phrasings."""
    return rng.choice(list(phrasings(scene)))


def phrasings(scene: Scene) -> Iterator[str]:
    """Yield every way to describe a scene, all in lower case and without a full stop."""
    if len(scene) == 1:
        for things in names(scene[0]):
            for where in WHERE[scene[0].place]:
                yield from (f"{opening}{things} {where}" for opening in OPENINGS)
                yield f"{where} there {'is' if scene[0].number == 1 else 'are'} {things}"
        return
    for first, second in (scene, scene[::-1]):
        for these in names(first):
            for those in names(second):
                for opening in OPENINGS:
                    yield f"{opening}{these} {BESIDE[first.place]} {those}"
                    for here, there in zip(WHERE[first.place], WHERE[second.place], strict=True):
                        yield f"{opening}{these} {here} and {those} {there}"


def names(group: Group) -> list[str]:
    """Name the objects of a group: "three red stars", or "an orange ring" and "one orange ring"."""
    if group.number > 1:
        return [
            f"{NUMBERS[group.number]} {group.colour} {group.form}{'es' if group.form == 'cross' else 's'}"
        ]
    article = "an" if group.colour[0] in "aeiou" else "a"
    return [f"{word} {group.colour} {group.form}" for word in (article, NUMBERS[1])]
