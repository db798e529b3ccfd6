"""Whether the samples of a feed and the rows of the table that it joins belong to each other."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wdsflow.joining.join_errors import ambiguous_join, no_match
from wdsflow.joining.joined_fields import JoinedFields
from wdsflow.joining.row_use import RowUse
from wdsflow.shards.shard import Shard
from wdsflow.text.words import how_many
from wdsflow.training.feed.catalog.sample_catalog import Catalog
from wdsflow.training.feed_options import FeedOptions, JoinError
from wdsflow.training.ranks import JobRank, gathered, talks

from .join_errors import refused_join

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

        gather: Callable[[Any], list[Any]] = gathered if connected else _alone
        _check_one_table(gather(digest))
        counts = np.sum(gather((use.samples, use.matched, use.several)), axis=0)
        self.samples, self.matched, self.several = counts.tolist()
        self.used = self.shared = 0
        for start in range(0, len(use.rows), _SLICE):
            part = slice(start, start + _SLICE)
            self._add(gather((use.rows[part], use.shared[part])))
        # Several ranks may have the same ones.
        examples: dict[str, None] = {}
        self.values: list[str] = []
        for examples_of_rank, values in gather((use.examples, use.values)):
            examples |= dict.fromkeys(examples_of_rank)
            self.values += values
        self.examples = list(examples)

    def _add(self, rows_of_ranks: "list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]") -> None:
        """Count the rows that samples have, and those that several samples have: on one rank, or on different ones."""
        import numpy as np

        used = np.zeros_like(rows_of_ranks[0][0])
        shared = np.zeros_like(used)
        for rows, shared_on_rank in rows_of_ranks:
            shared |= shared_on_rank | (used & rows)
            used |= rows
        self.used += int(np.unpackbits(used).sum())
        self.shared += int(np.unpackbits(shared).sum())


def check_listed_join(join: JoinedFields, job_rank: JobRank, options: FeedOptions) -> None:
    """Check the rows of all samples, which have been listed. Raises JoinError, on all ranks."""
    use, join.use = join.use, None
    assert use is not None
    matches = _Matches(use, join.index.digest, connected=job_rank.world_size > 1 and talks())
    if not matches.matched:
        raise refused_join(no_match(join, matches.samples, matches.values), options)
    if options.join_ambiguous == "refuse" and matches.several + matches.shared:
        error = ambiguous_join(join, matches.several, matches.shared, matches.examples)
        raise refused_join(error, options)
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
    join: JoinedFields,
    catalog: Catalog,
    urls: Sequence[Shard],
    job_rank: JobRank,
    options: FeedOptions,
) -> None:
    """List shards until a sample has a row. Raises JoinError if none has, or if ranks have other tables."""
    use = join.use
    assert use is not None
    if job_rank.world_size > 1 and talks():
        _check_one_table(gathered(join.index.digest))
    for url in urls:
        catalog.count(url)
        if use.matched:
            break
    join.use = None
    if not use.matched:
        raise refused_join(no_match(join, use.samples, use.values), options)


def _check_one_table(digests: Sequence[str]) -> None:
    """Raise JoinError if ranks have indexes of different tables."""
    if len(set(digests)) > 1:
        raise JoinError("the table is not the same on all ranks: give all machines one file")


def _alone(value: Any) -> list[Any]:
    return [value]
