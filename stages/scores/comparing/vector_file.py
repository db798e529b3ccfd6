"""Vectors of half floats in a file: embeddings of more images than fit into memory.

Imports numpy: import this module where it is needed.
"""

from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..base import Records

# (n, dimensions), of length 1.
Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]
# Bytes of the number of vectors at the start of a record, and of a half float.
_COUNT_BYTES = 2
_FLOAT_BYTES = 2
# Of the length of a vector, which may be 0.
_LEAST_LENGTH = np.float32(1e-12)


class VectorFile:
    """Vectors of half floats in a file, in the order of their samples.

    Attributes:
        dimensions: of a vector; 0 if there are none.
        locations: of each vector, uint64 (n): the number of its shard in the upper 32 bits, that of
            its sample in the lower ones.
    """

    def __init__(self, path: Path, records: Records) -> None:
        """Write the records of (shard, sample, vectors one after the other).

        Raises ValueError if lengths differ.
        """
        locations = array("Q")
        # The number of a vector in its sample.
        items = array("q")
        self.dimensions = 0
        with path.open("wb") as file:
            for shard, sample, data in records:
                count, size = _shape_of(data)
                if not count or (self.dimensions and size != self.dimensions):
                    raise ValueError(
                        f"the record of sample {sample} of shard {shard} has {len(data)} bytes: was it cut?"
                    )
                self.dimensions = size
                file.write(data[_COUNT_BYTES:])
                locations.extend([shard << 32 | sample] * count)
                items.extend(range(count))
        written = np.array(locations, np.uint64)
        # The same for any order of the records.
        self._order = np.lexsort((np.array(items, np.int64), written))
        self.locations = written[self._order]
        self._data: NDArray[np.float16] | None = None
        if len(written):
            self._data = np.memmap(path, "<f2", "r", shape=(len(written), self.dimensions))

    def __len__(self) -> int:
        return len(self.locations)

    def read_unit_vectors(self, numbers: "Numbers | slice") -> Vectors:
        """Return some vectors, of length 1."""
        assert self._data is not None
        vectors: Vectors = self._data[self._order[numbers]].astype(np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(lengths, _LEAST_LENGTH)
        return vectors


def pack_vectors(vectors: "Sequence[NDArray[np.float32]]") -> bytes:
    """Return a record of ``VectorFile``: the number of vectors in two bytes, and half floats."""
    data = [vector.astype("<f2").tobytes() for vector in vectors]
    return len(vectors).to_bytes(_COUNT_BYTES, "little") + b"".join(data)


def _shape_of(data: bytes) -> tuple[int, int]:
    """Return the number of vectors in a record, and their dimensions; (0, 0) if it is damaged."""
    count = int.from_bytes(data[:_COUNT_BYTES], "little")
    if not count:
        return 0, 0
    size, rest = divmod((len(data) - _COUNT_BYTES) // _FLOAT_BYTES, count)
    return (0, 0) if rest else (count, size)
