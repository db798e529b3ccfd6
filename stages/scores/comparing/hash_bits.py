"""The bits of 64-bit hashes.

Imports numpy: import this module where it is needed.
"""

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]


def bits_of(mask: int) -> list[int]:
    """Return the numbers of the bits that are set."""
    return [bit for bit in range(64) if mask >> bit & 1]


def count_ones(values: Hashes) -> NDArray[np.uint8]:
    """Return the number of bits that are set in each value."""
    # From numpy 2 on.
    if hasattr(np, "bitwise_count"):
        ones: NDArray[np.uint8] = np.bitwise_count(values)
        return ones
    # Sums of 2 bits, of 4, of 8, and then of all bytes.
    pairs = values - ((values >> np.uint64(1)) & np.uint64(0x5555555555555555))
    low_pairs = pairs & np.uint64(0x3333333333333333)
    high_pairs = (pairs >> np.uint64(2)) & np.uint64(0x3333333333333333)
    nibbles = low_pairs + high_pairs
    sums_of_bytes = (nibbles + (nibbles >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    sums = (sums_of_bytes * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return sums.astype(np.uint8)
