"""Rows that samples do not get because they share them with other samples.

All but the first sample of a row lose it, or all of them.

Positions are those of ``graft``: sample ``number`` of shard ``shard`` has the position shard << 32
| number.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FirstSamples(NamedTuple):
    """The index entries that several samples have, and the first sample of each.

    Entries are in order; a sample is given by its position.
    """

    entries: "NDArray[np.int64]"
    positions: "NDArray[np.int64]"

    @staticmethod
    def of(
        rows_of_shards: "Mapping[int, NDArray[np.int64]]", shared: "NDArray[np.uint8]"
    ) -> "FirstSamples":
        """Return the first samples among those of some shards.

        Args:
            rows_of_shards: by the number of a shard, the entry of each sample, negative without
                one.
            shared: a bit for each entry: whether several samples of all shards have it.
        """
        import numpy as np

        none = np.zeros(0, np.int64)
        entries, positions = [none], [none]
        for shard, rows in rows_of_shards.items():
            numbers = np.flatnonzero(_is_shared(rows, shared))
            entries.append(rows[numbers])
            positions.append(numbers + (shard << 32))
        return _firsts(np.concatenate(entries), np.concatenate(positions))

    @staticmethod
    def merged(parts: "Iterable[FirstSamples]") -> "FirstSamples":
        """Return the first samples of several parts."""
        import numpy as np

        entries, positions = zip(*parts, strict=True)
        return _firsts(np.concatenate(entries), np.concatenate(positions))


def withheld_rows(
    rows_of_shards: "Mapping[int, NDArray[np.int64]]",
    shared: "NDArray[np.uint8]",
    first: FirstSamples | None,
) -> dict[int, bytes]:
    """Return the samples that do not get their row: one bit per sample, by shard number.

    Shards without such samples are left out.

    ``first``: these get it; None if no sample does.
    """
    import numpy as np

    withheld: dict[int, bytes] = {}
    for shard, rows in rows_of_shards.items():
        numbers = np.flatnonzero(_is_shared(rows, shared))
        if first is not None:
            at = np.searchsorted(first.entries, rows[numbers])
            numbers = numbers[first.positions[at] != numbers + (shard << 32)]
        if len(numbers):
            bits = np.zeros(len(rows), np.uint8)
            bits[numbers] = 1
            withheld[shard] = np.packbits(bits, bitorder="little").tobytes()
    return withheld


def is_withheld(bits: bytes, number: int) -> bool:
    """Return whether a sample of a shard does not get its row."""
    byte = number >> 3
    return byte < len(bits) and bool(bits[byte] >> (number & 7) & 1)


def count_withheld(bits: bytes) -> int:
    """Return how many samples of a shard do not get their row."""
    return int.from_bytes(bits, "little").bit_count()


def _is_shared(rows: "NDArray[np.int64]", shared: "NDArray[np.uint8]") -> "NDArray[np.bool_]":
    import numpy as np

    is_shared = np.zeros(len(rows), np.bool_)
    has_row = rows >= 0
    entries = rows[has_row]
    masks = np.left_shift(1, entries & 7).astype(np.uint8)
    is_shared[has_row] = (shared[entries >> 3] & masks) != 0
    return is_shared


def _firsts(entries: "NDArray[np.int64]", positions: "NDArray[np.int64]") -> FirstSamples:
    """Return each entry once, with the least of its positions."""
    import numpy as np

    order = np.lexsort((positions, entries))
    different, at = np.unique(entries[order], return_index=True)
    return FirstSamples(different, positions[order][at])
