"""Bounds on a share, from some that were tried."""

import math

_DOUBT = 0.001  # how often a bound may be wrong


def bounds(hits: int, tried: int, untried: int) -> tuple[int, int]:
    """Return bounds on the hits among the untried, by Clopper and Pearson (1934), at 99.9 % on each side.

    >>> bounds(4, 4, 1), bounds(400, 400, 10_000), bounds(0, 400, 10_000), bounds(0, 0, 7)
    ((0, 1), (9828, 10000), (0, 172), (0, 7))
    """
    if not tried:
        return 0, untried
    least = 0.0 if hits == 0 else _solve(lambda share: _at_least(hits, tried, share))
    most = 1.0 if hits == tried else 1 - _solve(lambda share: _at_least(tried - hits, tried, share))
    return math.floor(least * untried), math.ceil(most * untried)


def _solve(chance: "object") -> float:
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if chance(middle) > _DOUBT:  # type: ignore[operator]
            high = middle
        else:
            low = middle
    return low


def _at_least(hits: int, tried: int, share: float) -> float:
    """Return the chance of at least that many hits."""
    if share <= 0:
        return 0.0
    if share >= 1:
        return 1.0
    total = 0.0
    for count in range(hits, tried + 1):
        log = math.lgamma(tried + 1) - math.lgamma(count + 1) - math.lgamma(tried - count + 1)
        total += math.exp(log + count * math.log(share) + (tried - count) * math.log1p(-share))
    return total
