"""Whether the samples of a feed and the rows of the table that it joins belong to each other."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wdsflow.shards.shard import Shard
from wdsflow.text.words import how_many
from wdsflow.training.feed.catalog.sample_catalog import Catalog
from wdsflow.training.feed_options import FeedOptions, JoinError
from wdsflow.training.joined_fields import JoinedFields, RowUse
from wdsflow.training.ranks import JobRank, gathered, talks

from .join_errors import ambiguous_join, no_match

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Bytes of the rows that ranks exchange at a time.
_SLICE = 1 << 20
_log = logging.getLogger("wdsflow.training")


class _Matches:
    """How samples and rows match, in all shards that the ranks have listed together."""

    def __init__(self, use: RowUse, digest: str, *, connected: bool) -> None:
        import numpy as np

        everyone: Callable[[Any], list[Any]] = gathered if connected else _alone
        if len(set(everyone(digest))) > 1:
            raise JoinError("the table is not the same on all ranks: give all machines one file")
        counts = np.sum(everyone((use.samples, use.matched, use.several, use.shared)), axis=0)
        self.samples, self.matched, self.several, self.shared = counts.tolist()
        self.used = 0
        for start in range(0, len(use.rows), _SLICE):
            self._add(everyone(use.rows[start : start + _SLICE]))
        self.examples: list[str] = []
        self.values: list[str] = []
        for examples, values in everyone((use.examples, use.values)):
            self.examples += examples
            self.values += values

    def _add(self, rows_of_ranks: "list[NDArray[np.uint8]]") -> None:
        """Count the rows that samples have, and those that samples of several ranks have."""
        import numpy as np

        used = np.zeros_like(rows_of_ranks[0])
        shared = np.zeros_like(used)
        for rows in rows_of_ranks:
            shared |= used & rows
            used |= rows
        self.used += int(np.unpackbits(used).sum())
        self.shared += int(np.unpackbits(shared).sum())


def check_listed_join(join: JoinedFields, job_rank: JobRank, options: FeedOptions) -> None:
    """Check the rows of all samples, which have been listed. Raises JoinError, on all ranks."""
    use, join.use = join.use, None
    assert use is not None
    matches = _Matches(use, join.index.digest, connected=job_rank.world_size > 1 and talks())
    if not matches.matched:
        raise no_match(join, matches.samples, matches.values, options)
    if options.join_ambiguous == "refuse" and matches.several + matches.shared:
        examples = matches.examples
        raise ambiguous_join(join, matches.several, matches.shared, examples, options)
    index = join.index
    _log.info(
        "join: %s of %s have a row of %s; %s of %s used",
        f"{matches.matched:,}",
        how_many(matches.samples, "sample"),
        join.table,
        f"{matches.used:,}",
        how_many(index.rows, "row"),
    )


def check_some_match(
    join: JoinedFields, catalog: Catalog, urls: Sequence[Shard], options: FeedOptions
) -> None:
    """List shards until a sample has a row. Raises JoinError if none has."""
    use = join.use
    assert use is not None
    for url in urls:
        catalog.count(url)
        if use.matched:
            break
    join.use = None
    if not use.matched:
        raise no_match(join, use.samples, use.values, options)


def _alone(value: Any) -> list[Any]:
    return [value]
