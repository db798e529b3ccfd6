"""The table of the samples that a score compares, and queries over it.

``compared`` has a row for each sample: ``shard`` and ``sample``, its numbers; ``key``; ``number``,
by which it is ranked; and ``data``, the bytes by which it is compared, of one image or caption
after the other. The order of shards and samples decides which of equal ones is the first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from wdsflow.tables import Tables

if TYPE_CHECKING:
    from ..base import Records, Scalar, Value

CREATE_COMPARED = (
    "CREATE TABLE compared (shard UINTEGER, sample UINTEGER, key VARCHAR, number DOUBLE, data BLOB)"
)

_ROWS_AT_ONCE = 1 << 12
_KEY_BYTES = 8


@contextmanager
def compared_records(records: "Records", folder: Path, memory: int) -> Iterator[Tables]:
    """Open a database whose table ``compared`` has some records, in any order."""
    with (
        TemporaryDirectory(dir=folder, prefix="compared-") as name,
        Tables(Path(name), memory=memory // 2) as tables,
    ):
        tables.run(CREATE_COMPARED)
        remaining = iter(records)
        while rows := list(islice(remaining, _ROWS_AT_ONCE)):
            shards, samples, data = zip(*rows, strict=True)
            nothing = [None] * len(rows)
            tables.add(
                "compared", shard=shards, sample=samples, key=nothing, number=nothing, data=data
            )
        yield tables


def split_items(tables: Tables, width: int) -> None:
    """Create the table ``items`` from ``compared``, with a row for each image or caption.

    A row has the item's key of 8 or 16 bytes.

    ``item`` is its index in the sample. ``high`` and ``low`` are the halves of a key of 16 bytes,
    ``high`` is a key of 8. Raises ValueError if the data of a sample does not consist of keys of
    ``width`` bytes.
    """
    cut = "octet_length(data) = 0 OR octet_length(data) % ? <> 0"
    query = f"SELECT shard, sample, octet_length(data) FROM compared WHERE {cut} ORDER BY shard, sample LIMIT 1"
    for shard, sample, size in tables.rows(query, width):
        raise ValueError(
            f"the record of sample {sample} of shard {shard} has {size} bytes: was it cut?"
        )
    # Numbers take less memory than texts, and are compared faster.
    digits, step = 2 * _KEY_BYTES, 2 * width
    halves = [
        f"('0x' || substr(digits, {step} * item + {1 + start}, {digits}))::UBIGINT"
        for start in range(0, step, digits)
    ]
    high, low = halves[0], halves[-1]
    tables.run(
        f"CREATE TABLE items AS SELECT shard, sample, item, {high} AS high, {low} AS low FROM (SELECT shard, sample,"
        f" hex(data) AS digits, unnest(range(octet_length(data) // {width})) AS item FROM compared)"
    )


def equal_items(tables: Tables, value: str) -> "Iterator[tuple[int, int, Value]]":
    """Yield a value for each key of 16 bytes, in order.

    ``value``: SQL over ``occurrence``, 1 for the first of equal keys, and ``occurrences``, how many
    of them there are.
    """
    split_items(tables, 16)
    # A table of its own: with little memory, the sort does not fit next to the windows.
    tables.run(
        f"CREATE TABLE valued AS SELECT shard, sample, item, {value} AS value FROM (SELECT *,"
        " row_number() OVER (PARTITION BY high, low ORDER BY shard, sample, item) AS occurrence,"
        " count(*) OVER (PARTITION BY high, low) AS occurrences FROM items)"
    )
    return by_sample(
        tables.rows("SELECT shard, sample, value FROM valued ORDER BY shard, sample, item")
    )


def near_items(tables: Tables, distance: int, memory: int) -> "Iterator[tuple[int, int, Value]]":
    """Yield for each hash of 64 bits whether it is a near duplicate.

    It is if it is within ``distance`` of an earlier hash that is not a near duplicate itself.
    """
    from .near_table import kept_hashes

    split_items(tables, 8)
    tables.run(
        "CREATE TABLE occurrences AS SELECT shard, sample, item, high AS hash,"
        " row_number() OVER (PARTITION BY high ORDER BY shard, sample, item) = 1 AS is_first FROM items"
    )
    # Distinct hashes are numbered by rowid, in the order in which they occur first.
    tables.run(
        "CREATE TABLE hashes AS SELECT hash FROM occurrences WHERE is_first ORDER BY shard, sample, item"
    )
    stays = kept_hashes(tables, distance, memory)
    return by_sample(_near(tables, stays))


def _near(tables: Tables, stays: bytearray) -> Iterator[tuple[int, int, bool]]:
    number = 0
    for shard, sample, is_first in tables.rows(
        "SELECT shard, sample, is_first FROM occurrences ORDER BY shard, sample, item"
    ):
        if not is_first:
            # Equal to an earlier hash, which stays, or is near one that stays.
            yield shard, sample, True
            continue
        yield shard, sample, not stays[number]
        number += 1


def outlier_items(tables: Tables, factor: float) -> "Iterator[tuple[int, int, Value]]":
    """Yield for each pair of width and height whether its size is an outlier.

    Width and height have 4 bytes each; the size is the square root of their product.

    Outliers are outside of the quartiles by more than ``factor`` times their distance, as by
    numpy's ``percentile``.
    """
    split_items(tables, 8)
    tables.run(
        "CREATE TABLE sizes AS SELECT shard, sample, item, sqrt((high >> 32)::DOUBLE * (high & 4294967295)) AS size FROM items"
    )
    count: int = tables.one("SELECT count(*) FROM sizes")[0]
    quartiles = []
    for quarters in (1, 3) if count else ():
        # Not quantile_cont: aggregates that collect values do not continue on disk.
        index, rest = divmod((count - 1) * quarters, 4)
        near = [
            size
            for (size,) in tables.rows(
                "SELECT size FROM sizes ORDER BY size LIMIT 2 OFFSET ?", index
            )
        ]
        quartiles.append(near[0] + (near[-1] - near[0]) * rest / 4)
    low, high = quartiles or (0.0, 0.0)
    least, most = low - factor * (high - low), high + factor * (high - low)
    query = "SELECT shard, sample, size < ? OR size > ? FROM sizes ORDER BY shard, sample, item"
    return by_sample(tables.rows(query, least, most))


def by_sample(rows: "Iterator[tuple[int, int, Scalar]]") -> "Iterator[tuple[int, int, Value]]":
    """Yield (shard, sample, value) in order.

    The value is a list for a sample with several images or captions.
    """
    for (shard, sample), items in groupby(rows, itemgetter(0, 1)):
        values = [value for _, _, value in items]
        yield shard, sample, values[0] if len(values) == 1 else values
