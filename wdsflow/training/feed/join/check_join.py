"""Whether the samples of a feed and the rows of the table that it joins belong to each other."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wdsflow.joining.join_errors import all_withheld_error, ambiguous_join_error, no_match_error
from wdsflow.joining.join_result import withheld_line
from wdsflow.joining.joined_fields import JoinedFields
from wdsflow.joining.row_use import RowUse
from wdsflow.joining.withheld_rows import FirstSamples, count_withheld, withheld_rows
from wdsflow.shards.shard import Shard
from wdsflow.text.words import how_many
from wdsflow.training.feed.catalog.sample_catalog import Catalog
from wdsflow.training.feed.catalog.sample_counts import count_samples
from wdsflow.training.feed_options import FeedOptions, JoinError
from wdsflow.training.ranks import JobRank, gather_from_ranks, is_distributed

from .join_errors import mismatch_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Bytes of the rows that ranks exchange at a time.
_SLICE = 1 << 20
# Entries of the index, and positions of samples, that ranks exchange at a time.
_ENTRIES = 1 << 18
_log = logging.getLogger("wdsflow.training")


def count_and_check_join(
    catalog: Catalog,
    urls: Sequence[Shard],
    job_rank: JobRank,
    options: FeedOptions,
    *,
    exact: bool = True,
) -> list[int]:
    """Return how many samples of each shard can be used, and check the join, if any.

    The samples are counted as by ``count_samples``.

    Shards with samples that do not get their row are counted again. Raises JoinError, on all ranks.
    """
    counts = count_samples(catalog, urls, job_rank, options, exact=exact)
    if catalog.join is None or catalog.join.use is None:
        return counts
    _check(catalog.join, urls, job_rank, options)
    changed = [url for url in dict.fromkeys(urls) if url in catalog.join.withheld]
    if not changed:
        return counts
    catalog.forget_listings()
    new = dict(
        zip(changed, count_samples(catalog, changed, job_rank, options, exact=exact), strict=True)
    )
    return [new.get(url, count) for url, count in zip(urls, counts, strict=True)]


def check_some_match(
    join: JoinedFields,
    catalog: Catalog,
    urls: Sequence[Shard],
    job_rank: JobRank,
    options: FeedOptions,
) -> None:
    """List shards until a sample has a row.

    Raises JoinError if no sample has one, or if ranks have other tables.
    """
    use = join.use
    assert use is not None
    if job_rank.world_size > 1 and is_distributed():
        _check_one_table(gather_from_ranks(join.index.digest))
    for url in urls:
        catalog.count(url)
        if use.matched:
            break
    join.use = None
    if not use.matched:
        raise mismatch_error(no_match_error(join, use.samples, use.values), options)


class _Matches:
    """How samples and rows match, in all shards that the ranks have listed together.

    Attributes:
        samples: that have been listed.
        matched: those with a row.
        withheld: those that do not get their row.
        several: those whose value is in several rows.
        used: rows that samples have.
        shared: rows that several samples have.
        examples: values of rows that are ambiguous.
        values: to join on, of the first samples.
    """

    def __init__(self, use: RowUse, gather: Callable[[Any], list[Any]]) -> None:
        import numpy as np

        counts = np.sum(
            gather((use.samples, use.matched, use.withheld, use.with_several_rows)), axis=0
        )
        self.samples, self.matched, self.withheld, self.several = counts.tolist()
        self.used = self.shared = 0
        for start in range(0, len(use.used_rows), _SLICE):
            part = slice(start, start + _SLICE)
            use.shared_rows[part] = self._add(gather((use.used_rows[part], use.shared_rows[part])))
        # Several ranks may have the same ones.
        examples: dict[str, None] = {}
        self.values: list[str] = []
        for examples_of_rank, values in gather((use.examples, use.values)):
            examples |= dict.fromkeys(examples_of_rank)
            self.values += values
        self.examples = list(examples)

    def _add(
        self, rows_of_ranks: "list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]"
    ) -> "NDArray[np.uint8]":
        """Count the rows that samples have, and return those that several samples have.

        These are counted too. The samples may be on one rank or on different ranks.
        """
        import numpy as np

        used = np.zeros_like(rows_of_ranks[0][0])
        shared = np.zeros_like(used)
        for rows, shared_on_rank in rows_of_ranks:
            shared |= shared_on_rank | (used & rows)
            used |= rows
        self.used += int(np.unpackbits(used).sum())
        self.shared += int(np.unpackbits(shared).sum())
        return shared


def _check(
    join: JoinedFields, urls: Sequence[Shard], job_rank: JobRank, options: FeedOptions
) -> None:
    """Check the rows of all samples, and withhold them from ambiguous samples.

    The samples have been listed. Raises JoinError, on all ranks.
    """
    use, join.use = join.use, None
    assert use is not None
    gather: Callable[[Any], list[Any]] = _gather_alone
    if job_rank.world_size > 1 and is_distributed():
        gather = gather_from_ranks
    _check_one_table(gather(join.index.digest))
    matches = _Matches(use, gather)
    if options.join_ambiguous == "refuse" and matches.several + matches.shared:
        error = ambiguous_join_error(join, matches.several, matches.shared, matches.examples)
        raise mismatch_error(error, options)
    if join.withholds_rows:
        join.withheld = _withheld(join, use, urls, gather)
        withheld = sum(map(count_withheld, join.withheld.values()))
        matches.withheld += withheld
        matches.matched -= withheld
    if not matches.matched:
        if matches.withheld:
            raise mismatch_error(all_withheld_error(join, matches.withheld), options)
        raise mismatch_error(no_match_error(join, matches.samples, matches.values), options)
    _log.info(
        "join: %s of %s have a row of %s; %s of %s used",
        f"{matches.matched:,}",
        how_many(matches.samples, "sample"),
        join.table,
        f"{matches.used:,}",
        how_many(join.index.rows, "row"),
    )
    if matches.withheld:
        _log.info("join: %s", withheld_line(matches.withheld, join.ambiguous))


def _withheld(
    join: JoinedFields, use: RowUse, urls: Sequence[Shard], gather: Callable[[Any], list[Any]]
) -> dict[Shard, bytes]:
    """Return the samples of all ranks that do not get their row, by shard."""
    rows = use.rows_by_number(urls)
    first = None
    if join.ambiguous == "first":
        first = _gathered_firsts(FirstSamples.of(rows, use.shared_rows), gather)
    withheld: dict[Shard, bytes] = {}
    for part in gather(withheld_rows(rows, use.shared_rows, first)):
        for number, bits in part.items():
            withheld[urls[number]] = bits
    return withheld


def _gathered_firsts(own: FirstSamples, gather: Callable[[Any], list[Any]]) -> FirstSamples:
    """Return the first samples among those of all ranks, which exchange some at a time."""
    longest = max(gather(len(own.entries)))
    merged = [own]
    for start in range(0, longest, _ENTRIES):
        part = slice(start, start + _ENTRIES)
        for entries, positions in gather((own.entries[part], own.positions[part])):
            merged.append(FirstSamples(entries, positions))
    return FirstSamples.merged(merged)


def _check_one_table(digests: Sequence[str]) -> None:
    """Raise JoinError if ranks have indexes of different tables."""
    if len(set(digests)) > 1:
        raise JoinError("the table is not the same on all ranks: give all machines one file")


def _gather_alone(value: Any) -> list[Any]:
    return [value]
