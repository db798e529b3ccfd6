"""The compared data of samples as rows: one for each image or caption."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .spill import Rows

# ``high`` and ``low`` are the key (16 bytes; of 8 bytes ``low`` is 0). ``place`` is shard * 2**32 + sample, ``item``
# counts the images or captions of a sample.
CELL: np.dtype[Any] = np.dtype([("high", "<u8"), ("low", "<u8"), ("place", "<u8"), ("item", "<u4")])
_BLOCK = 1 << 14


def cells(records: Iterable[tuple[int, int, bytes]], width: int) -> Iterator[Rows]:
    """Yield rows of CELL, a block at a time. ``width`` is the length of a key in bytes: 8 or 16.

    Raises ValueError if a record does not consist of keys of that length.
    """
    keys, places, items = bytearray(), array("Q"), array("L")
    for shard, sample, data in records:
        count, rest = divmod(len(data), width)
        if rest or not count:
            raise ValueError(f"the record of sample {sample} of shard {shard} has {len(data)} bytes: was it cut?")
        keys += data
        place = shard << 32 | sample
        if count == 1:
            places.append(place)
            items.append(0)
        else:
            places.extend([place] * count)
            items.extend(range(count))
        if len(places) >= _BLOCK:
            yield _rows(keys, places, items, width)
            keys, places, items = bytearray(), array("Q"), array("L")
    if places:
        yield _rows(keys, places, items, width)


def _rows(keys: bytearray, places: "array[int]", items: "array[int]", width: int) -> Rows:
    rows = np.zeros(len(places), CELL)
    words = np.frombuffer(bytes(keys), ">u8").reshape(len(places), width // 8)
    rows["high"] = words[:, 0]
    if width == 16:
        rows["low"] = words[:, 1]
    rows["place"] = np.frombuffer(places, np.uint64)
    rows["item"] = np.array(items, np.uint32)
    return rows
