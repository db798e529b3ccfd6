"""The table that is joined with the samples of a run.

It is opened, and compared with all shards before the first is processed.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Event

from wdsflow.joining.checked_columns import CHECKED_IMAGE
from wdsflow.joining.join_errors import JoinMismatch
from wdsflow.joining.join_options import JoinOptions
from wdsflow.joining.join_result import JoinResult, mismatch_lines
from wdsflow.joining.joined_fields import JoinedFields
from wdsflow.joining.joined_view import JoinCounts, JoinedShard
from wdsflow.joining.open_join import OpenedJoin
from wdsflow.records.shard_jobs import run_on_shards
from wdsflow.shards.samples.tar_sample import TarSample
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.thread_jobs import Begin

from .recipe.recipe import digest

# Images of a shard that are compared with the hashes in a table: all would take as long as the run.
_COMPARED_IMAGES = 16
# Shards at once.
_JOBS = 2


@dataclass(frozen=True)
class JoinedSamples:
    """The join of a run. ``options``: as they were given."""

    fields: JoinedFields
    options: JoinOptions

    @property
    def identity(self) -> dict[str, object]:
        """What determines the values that samples get."""
        return self.fields.identity()

    def digest(self, url: Shard) -> str:
        """Return a digest of what determines the values that samples of a shard get."""
        facts = self.identity
        withheld = self.fields.withheld.get(url)
        if withheld is not None:
            facts["withheld"] = withheld.hex()
        return digest(facts)

    def for_shard(self, url: Shard) -> "JoinedSamples":
        """Return the join for one shard, to be sent to a worker."""
        return JoinedSamples(self.fields.for_shard(url), self.options)

    def joined_view(self, source: Source, url: Shard) -> Source:
        """Return the tar of a shard whose samples have the fields of their rows.

        Raises SourceError, OSError.
        """
        return JoinedShard(self.fields, url).view(source)


def digest_of(join: JoinedSamples | None, url: Shard) -> str:
    """Return the digest of a join for a shard, "" without one."""
    return "" if join is None else join.digest(url)


def with_fields(source: Source, url: Shard, join: JoinedSamples | None) -> Source:
    """Return the tar of a source whose samples have the fields of a table.

    Without a table, return the source. Raises SourceError, OSError.
    """
    return source if join is None else join.joined_view(source, url)


def open_join(options: JoinOptions, urls: Sequence[Shard]) -> JoinedSamples | None:
    """Return the join of a run, None without a table. Raises UnpairedJoin, TableError."""
    if options.join is None:
        return None
    opened = OpenedJoin(options)
    opened.find_key_prefixes(urls)
    opened.fields.use = None
    return JoinedSamples(opened.fields, options)


@dataclass(frozen=True)
class _Listing:
    """A shard whose samples are listed."""

    url: Shard
    join: JoinedSamples
    allow_pipe: bool


def check_join(
    join: JoinedSamples,
    urls: Sequence[Shard],
    *,
    allow_pipe: bool = False,
    begin: Begin | None = None,
) -> str:
    """List the samples of all shards, and return a line on those with a row.

    The line is "" without samples. Raises JoinMismatch.

    A shard that cannot be read is reported when it is processed. ``begin``: for a display of
    progress.
    """
    result = JoinResult(join.fields)
    listings = [_Listing(url, join.for_shard(url), allow_pipe) for url in dict.fromkeys(urls)]

    def note(listing: _Listing, counts: JoinCounts | None) -> None:
        if counts is not None:
            result.add(listing.url, counts)

    run_on_shards(listings, _count_matches, note, _JOBS, begin)
    if not result.use.samples and join.fields.index.rows:
        # Not the table is wrong: no shard can be read.
        return ""
    result.withhold_ambiguous(urls)
    result.check(join.options.join_ambiguous, all_shards=True)
    if result.mismatches:
        lines = mismatch_lines(result.mismatches, result.examples)
        raise JoinMismatch(
            "\n".join(
                [
                    "the keys are not those of the table; img2dataset gives samples new numbers in each download",
                    *(f"  {line}" for line in lines),
                ]
            ),
            # On the hash of an image, only wdsflow graft joins.
            differing_column=next(
                (name for name in result.mismatches if name != CHECKED_IMAGE), ""
            ),
        )
    return "; ".join(result.lines())


def _count_matches(listing: _Listing, _: Event) -> JoinCounts | None:
    """Return how the samples of a shard match the rows, None if it cannot be read."""
    fields = listing.join.fields
    shard = JoinedShard(
        fields, listing.url, checks_json=True, checks_images=partial(_is_compared, fields)
    )
    with suppress(SourceError), open_source(listing.url, allow_pipe=listing.allow_pipe) as source:
        shard.count(source)
        return shard.counts
    return None


def _is_compared(fields: JoinedFields, sample: TarSample) -> bool:
    """Return whether the image of a sample is compared with its row."""
    return CHECKED_IMAGE in fields.index.checked and sample.number < _COMPARED_IMAGES
