"""From records to values, by what records with the same key, or with one near it, mean for each other."""

from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from wdsflow.tables import Tables

from ...base import Value
from .kept import kept

Records = Iterable[tuple[int, int, bytes]]
_BLOCK = 1 << 14  # items that are added at once

# An item is an image or a caption: `item` counts those of a sample. `high` and `low` are its key of 16 bytes; of a key
# of 8 bytes, `low` is 0. The place of a sample is shard * 2**32 + sample. `firsts` has for each key its first item.
_AT = "(place::UHUGEINT * 4294967296 + item)"
_ITEMS = "CREATE TABLE items (high UBIGINT, low UBIGINT, place UBIGINT, item UINTEGER)"
_FIRSTS = (
    f"CREATE TABLE firsts AS SELECT high, low, min({_AT}) AS first, count(*) AS times FROM items GROUP BY high, low"
)
_VALUES = "SELECT place, item, {} FROM items JOIN firsts USING (high, low) ORDER BY place, item"


def later_of_same(records: Records, width: int, folder: Path, memory: int) -> Iterator[tuple[int, int, Value]]:
    """Yield True for each key that occurs at an earlier place."""
    with _items(records, width, folder, memory) as tables:
        yield from _by_sample(tables.rows(_VALUES.format(f"{_AT} <> first")))


def number_of_same(records: Records, width: int, folder: Path, memory: int) -> Iterator[tuple[int, int, Value]]:
    """Yield for each key how often it occurs."""
    with _items(records, width, folder, memory) as tables:
        yield from _by_sample(tables.rows(_VALUES.format("times")))


def near_kept(records: Records, distance: int, folder: Path, memory: int) -> Iterator[tuple[int, int, Value]]:
    """Yield True for each 64-bit hash that is not kept: one that is kept, at an earlier place, is within ``distance``."""
    with _items(records, 8, folder, memory) as tables:
        # Their numbers are the rowids. A hash that is equal to an earlier one shares the fate of that one, or is near it.
        tables.run("CREATE TABLE hashes AS SELECT high AS hash, first FROM firsts ORDER BY first")
        keep = kept(tables, distance, memory)
        rows = tables.rows(
            f"SELECT place, item, CASE WHEN {_AT} = first THEN hashes.rowid END "
            "FROM items JOIN hashes ON high = hash ORDER BY place, item"
        )
        yield from _by_sample((place, item, number is None or not keep[number]) for place, item, number in rows)


@contextmanager
def _items(records: Records, width: int, folder: Path, memory: int) -> Iterator[Tables]:
    """Read all records into the tables ``items`` and ``firsts``.

    Raises ValueError if a record does not consist of keys of ``width`` bytes: 8 or 16.
    """
    with TemporaryDirectory(dir=folder, prefix="same-") as place, Tables(Path(place), memory=memory // 2) as tables:
        tables.run(_ITEMS)
        for columns in _columns(records, width):
            tables.add("items", **columns)
        tables.run(_FIRSTS)
        yield tables


def _columns(records: Records, width: int) -> Iterator[dict[str, Any]]:
    keys, places, items = bytearray(), array("Q"), array("L")
    for shard, sample, data in records:
        count, rest = divmod(len(data), width)
        if rest or not count:
            raise ValueError(f"the record of sample {sample} of shard {shard} has {len(data)} bytes: was it cut?")
        keys += data
        places.extend([shard << 32 | sample] * count)
        items.extend(range(count))
        if len(places) >= _BLOCK:
            yield _column(keys, places, items, width)
            keys, places, items = bytearray(), array("Q"), array("L")
    if places:
        yield _column(keys, places, items, width)


def _column(keys: bytearray, places: "array[int]", items: "array[int]", width: int) -> dict[str, Any]:
    words = np.frombuffer(bytes(keys), ">u8").reshape(len(places), width // 8).astype(np.uint64)
    low = words[:, 1] if width == 16 else np.zeros(len(places), np.uint64)
    return {
        "high": np.ascontiguousarray(words[:, 0]),
        "low": np.ascontiguousarray(low),
        "place": np.array(places, np.uint64),
        "item": np.array(items, np.uint32),
    }


def _by_sample(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, int, Value]]:
    """Yield (shard, sample, value) in order: a list where a sample has several."""
    for place, found in groupby(rows, itemgetter(0)):
        values = [value for _, _, value in found]
        yield place >> 32, place & 0xFFFFFFFF, values[0] if len(values) == 1 else values
