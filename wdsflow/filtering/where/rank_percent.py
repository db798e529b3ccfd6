"""The rank of a sample among all samples, by any number: what ``--keep "clip_similarity top 30%"`` compares."""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar, Literal

from wdsflow.stages.scores.base import DatasetScore, Tier, Value
from wdsflow.tables import Tables

if TYPE_CHECKING:
    from wdsflow.stages.scores.sample_view import View

_AT_ONCE = 1 << 14  # rows
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
        """Yield the rank of each sample, in order."""
        import numpy as np

        with TemporaryDirectory(dir=folder, prefix="rank-") as place, Tables(Path(place), memory=memory // 2) as tables:
            tables.run("CREATE TABLE numbers (value DOUBLE, key BLOB, place UBIGINT)")
            left, count = iter(records), 0
            while rows := list(islice(left, _AT_ONCE)):
                count += len(rows)
                tables.add(
                    "numbers",
                    value=np.array([_VALUE.unpack_from(data)[0] for *_, data in rows]) + 0.0,  # -0.0 is 0.0
                    key=[data[_VALUE.size :] for *_, data in rows],
                    place=np.array([shard << 32 | sample for shard, sample, _ in rows], np.uint64),
                )
            tables.run("CREATE TABLE ranks AS SELECT place FROM numbers ORDER BY value, key, place")
            for at, rank in tables.rows("SELECT place, rowid + 1 FROM ranks ORDER BY place"):
                yield at >> 32, at & 0xFFFFFFFF, 100 * rank / count
