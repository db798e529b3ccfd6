"""The rank of a sample among all samples, by any number: what ``--keep "clip_similarity top 30%"`` compares."""

import struct
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar, Literal

from wdsflow.stages.scores.base import DatasetScore, Tier, Value

if TYPE_CHECKING:
    from wdsflow.stages.scores.sample_view import View

_AT_ONCE = 1 << 16  # rows
_VALUE = struct.Struct(">d")


@dataclass(frozen=True, kw_only=True)
class RankPercent(DatasetScore):
    """Rank of a sample by a number, in percent of the samples that have one: the best of 200 has 0.5, the last 100.

    ``of`` is the number: a score, or an expression such as ``width / height``. ``rank_percent(of="blur") <= 30`` keeps
    30 % of the samples in which blur has a value, rounded down. ``end="bottom"`` begins with the smallest number. Of
    equal numbers, the smaller key comes first (by its bytes), then the earlier sample. Of several values in a sample
    the worst counts. A sample without a value has no rank. ``among="all"``: all samples of the shards are ranked, even
    those that other terms drop, as in DataComp's baselines. ``among="kept"``: only samples that all other terms keep
    are ranked, and ``of`` is computed only for these.
    """

    name: ClassVar[str] = "rank_percent"
    tier: ClassVar[Tier] = "header"
    unit: ClassVar[str] = "%"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 100
    argument: ClassVar[str] = "of"

    of: str
    end: Literal["top", "bottom"] = "top"

    def gather(self, view: "View") -> bytes:
        """Raise TypeError: ``record`` takes values that are computed already."""
        raise TypeError(f"{self.name} compares values of other scores: it reads no sample")

    def record(self, value: float, key: str) -> bytes:
        """Return the bytes by which a sample is ranked."""
        return _VALUE.pack(-value if self.end == "top" else value) + key.encode("utf-8", "surrogateescape")

    def resolve(
        self, records: Iterable[tuple[int, int, bytes]], folder: Path, *, memory: int = 256 << 20
    ) -> Iterator[tuple[int, int, Value]]:
        """Yield the rank of each sample, in order. Keys and numbers are sorted on disk, by SQLite."""
        import sqlite3

        import numpy as np

        from wdsflow.stages.scores.dataset.comparing.compared_results import Census, ComparedResults

        with TemporaryDirectory(dir=folder, prefix="rank-") as place:
            census, left, count = Census(), iter(records), 0
            with closing(sqlite3.connect(Path(place) / "ranks", isolation_level=None)) as ranks:
                for pragma in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{memory >> 11}"):
                    ranks.execute(f"PRAGMA {pragma}")
                ranks.execute(
                    "CREATE TABLE ranks (value REAL, key BLOB, shard INTEGER, sample INTEGER, "
                    "PRIMARY KEY (value, key, shard, sample)) WITHOUT ROWID"
                )
                ranks.execute("BEGIN")
                while rows := list(islice(left, _AT_ONCE)):
                    count += len(rows)
                    census.see(np.array([shard << 32 | sample for shard, sample, _ in rows], np.uint64))
                    parts = ((*_VALUE.unpack_from(data), data[_VALUE.size :], *at) for *at, data in rows)
                    ranks.executemany("INSERT INTO ranks VALUES (?, ?, ?, ?)", sorted(parts))
                results, rank = ComparedResults(Path(place), census, memory // 4), 0
                ordered = ranks.execute("SELECT shard << 32 | sample FROM ranks ORDER BY value, key, shard, sample")
                while found := ordered.fetchmany(_AT_ONCE):
                    places = np.array(found, np.int64)[:, 0].astype(np.uint64)
                    ends = np.arange(rank + 1, rank + 1 + len(places), dtype=np.uint32)
                    results.add(places, np.zeros(len(places), np.uint32), ends)
                    rank += len(places)
            yield from results.values(lambda rank: 100 * rank / count)
