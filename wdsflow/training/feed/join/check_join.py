"""Whether the samples of a feed and the rows of the table that it joins belong to each other."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wdsflow.shards.shard import Shard
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, listed
from wdsflow.training.feed.catalog.sample_catalog import Catalog
from wdsflow.training.feed_options import FeedOptions, JoinError
from wdsflow.training.joined_fields import JoinedFields, RowUse
from wdsflow.training.ranks import JobRank, gathered, talks
from wdsflow.training.stalls.field_fixes import command

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Bytes of the rows that ranks exchange at a time.
_SLICE = 1 << 20
_log = logging.getLogger("wdsflow.training")


class _Matches:
    """How samples and rows match, in all shards that the ranks have listed together."""

    def __init__(self, use: RowUse, *, connected: bool) -> None:
        import numpy as np

        everyone: Callable[[Any], list[Any]] = gathered if connected else _alone
        counts = np.sum(everyone((use.samples, use.matched, use.several, use.shared)), axis=0)
        self.samples, self.matched, self.several, self.shared = counts.tolist()
        self.used = 0
        for start in range(0, len(use.rows), _SLICE):
            self._add(everyone(use.rows[start : start + _SLICE]))
        self.examples: list[str] = []
        for examples in everyone(use.examples):
            self.examples += examples

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
    matches = _Matches(use, connected=job_rank.world_size > 1 and talks())
    if not matches.matched:
        raise _no_match(join, matches.samples, options)
    if options.join_ambiguous == "refuse" and matches.several + matches.shared:
        raise _ambiguous(join, matches, options)
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
    use, join.use = join.use, None
    assert use is not None
    samples = 0
    for url in urls:
        for item in catalog.outline(url):
            samples += 1
            if join.row_of(url, item.key) >= 0:
                return
    raise _no_match(join, samples, options)


def _alone(value: Any) -> list[Any]:
    return [value]


def _no_match(join: JoinedFields, samples: int, options: FeedOptions) -> JoinError:
    """Return the error, with examples of both sides."""
    if not join.index.rows:
        return JoinError(f"{join.table} has no rows")
    in_table = ", ".join(escape(value, 100) for value in join.index.examples)
    has = f"it has {in_table} in column {join.on.column}" if in_table else "its column is empty"
    column = command(options, join_on="key=COLUMN")
    return JoinError(
        f"none of {how_many(samples, 'sample')} has a row in {join.table}: {has}\n"
        f"To fix it, name the column with the keys of samples: {column}"
    )


def _ambiguous(join: JoinedFields, matches: _Matches, options: FeedOptions) -> JoinError:
    parts = []
    if matches.several:
        parts.append(f"{how_many(matches.several, 'sample')} with several rows of the table each")
    if matches.shared:
        parts.append(f"{how_many(matches.shared, 'row')} with several samples each")
    such = ", ".join(escape(value, 80) for value in matches.examples[:3])
    shown = f", such as {such}" if such else ""
    each = command(options, join_ambiguous="each")
    return JoinError(
        f"{join.on} does not identify samples of {join.table}: {listed(parts)}{shown}\n"
        f"To give each of the samples the first row: {each}"
    )
