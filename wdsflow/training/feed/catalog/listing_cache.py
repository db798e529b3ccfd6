"""The samples of shards that were listed before: a set that fits is listed once."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

from wdsflow.shards.shard import Shard
from wdsflow.training.sample_tasks import Blob, SampleRef
from wdsflow.training.stalls.loss_tally import FeedLoss

from .listing import Listed

# References held for later passes.
_MOST = 200_000
# References whose memory the list of a shard takes.
_LIST = 8

# The garbage collector traverses containers, but not plain tuples of numbers and strings: lists of
# references would stop training for a second.
_Row: TypeAlias = FeedLoss | tuple[str | int, ...]


class ListingCache:
    """Keeps the samples of shards that were used last. Thread-safe.

    ``stored_at``: the path of a file with the bytes of a shard on a server, which names their
    version, too; "" for a local shard: if its length has changed, it is another version.
    """

    def __init__(self) -> None:
        # By shard or path, and length.
        self._rows: OrderedDict[tuple[str, int], list[_Row]] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def get(self, shard: Shard, length: int, stored_at: str) -> Iterator[Listed] | None:
        """Return the samples of a shard; None if they are not kept."""
        name = stored_at or shard, length
        rows = self._rows.get(name)
        if rows is None:
            return None
        # It may have been evicted meanwhile.
        with suppress(KeyError):
            self._rows.move_to_end(name)
        return (
            row if isinstance(row, FeedLoss) else _unpacked(shard, stored_at, row) for row in rows
        )

    def storing(
        self,
        shard: Shard,
        length: int,
        stored_at: str,
        samples: Iterator[Listed],
        are_all: Callable[[], bool] = lambda: True,
    ) -> Iterator[Listed]:
        """Yield the samples of a shard, and store them after the last one.

        They are stored only if ``are_all`` returns true: all samples were listed.
        """
        rows: list[_Row] | None = []
        for sample in samples:
            if rows is not None:
                rows.append(sample if isinstance(sample, FeedLoss) else _packed(sample))
                if len(rows) > _MOST:
                    rows = None
            yield sample
        if rows is not None and are_all():
            self._keep((stored_at or shard, length), rows)

    def _keep(self, name: tuple[str, int], rows: list[_Row]) -> None:
        with self._lock:
            if name not in self._rows:
                self._rows[name] = rows
                self._held += len(rows) + _LIST
            while self._held > _MOST:
                _, evicted = self._rows.popitem(last=False)
                self._held -= len(evicted) + _LIST


def _packed(ref: SampleRef) -> _Row:
    values: list[str | int] = [ref.key, ref.row, *ref.image[:3]]
    for blob in ref.texts:
        values += blob[:3]
    return tuple(values)


def _unpacked(shard: Shard, stored_at: str, row: tuple[Any, ...]) -> SampleRef:
    texts = [Blob(*row[at : at + 3]) for at in range(5, len(row), 3)]
    return SampleRef(shard, row[0], Blob(*row[2:5]), tuple(texts), row[1], stored_at)
