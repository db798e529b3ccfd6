"""How much decoding at a reduced scale changes the value of a score."""

from typing import NamedTuple


class Tolerance(NamedTuple):
    """How much a value changes at most, in photographs."""

    most: float
    of: str = ""  # "of the value", "bits", ...


# The effect on the value depends on the model: some look at edges, some at colours.
SEEN_PIXELS = Tolerance(0.5, "levels of 255 in the pixels that the model sees, on average")
