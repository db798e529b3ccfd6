"""The size at which scores look at pictures."""

from .size_rule import SizeRule

SCORED = SizeRule("long", 512)


def aim_of_scores(width: int, height: int) -> tuple[int, int]:
    """Return the target (height, width) at which scores decode a picture."""
    across, down = SCORED.scaled(width, height)
    return down, across
