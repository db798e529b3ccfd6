"""A random order that is the same on every machine, with any number of processes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def random_numbers(positions: "NDArray[np.uint64]", seed: str) -> "NDArray[np.uint64]":
    """Return a distinct random number for each position: sorting by them shuffles the positions.

    It is splitmix64, which depends on the position and the seed alone.

    >>> import numpy as np
    >>> random_numbers(np.array([1, 2], np.uint64), "a").tolist() == random_numbers(np.array([2, 1], np.uint64), "a").tolist()[::-1]
    True
    """
    import numpy as np
    from xxhash import xxh3_64_intdigest

    start = np.uint64(xxh3_64_intdigest(seed.encode()))
    # The sums and products wrap around.
    with np.errstate(over="ignore"):
        state = positions * np.uint64(0x9E3779B97F4A7C15) + start
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        numbers: NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return numbers
