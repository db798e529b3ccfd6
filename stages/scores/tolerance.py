"""What decoding large images at a reduced scale changes in the value of a score."""

from typing import NamedTuple


class Tolerance(NamedTuple):
    """How much a value changes at most, in photographs."""

    most: float
    of: str = ""  # "of the value", "bits", ...


# What becomes of it is the model's doing: some look at edges, some at colours.
SEEN_PIXELS = Tolerance(0.5, "levels of 255 in the pixels that the model sees, in the mean")
