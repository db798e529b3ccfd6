"""Opens the table that a feed joins: its index and the keys of its shards.

The index is made once on a machine.
"""

from collections.abc import Sequence

from wdsflow.joining.join_options import UnpairedJoin
from wdsflow.joining.joined_fields import JoinedFields
from wdsflow.joining.open_join import OpenedJoin
from wdsflow.shards.shard import Shard
from wdsflow.stages.caption_sources import Captions
from wdsflow.table_files.errors import TableError
from wdsflow.training.feed_options import FeedOptions, JoinError

from .join_errors import unreadable_table_error


class FeedJoin:
    """The join of a feed.

    ``captions``: of its samples, some of which may be columns of the table. Raises JoinError if the
    table cannot be read; UnpairedJoin if nothing is set from it.
    """

    def __init__(self, options: FeedOptions, captions: Captions | None) -> None:
        try:
            self._opened = OpenedJoin(options, captions)
        except TableError as error:
            raise unreadable_table_error(error, options) from error.__cause__
        self.fields: JoinedFields = self._opened.fields

    def find_key_prefixes(self, urls: Sequence[Shard]) -> None:
        """Learn how the keys of shards are named in a ledger. Raises JoinError."""
        try:
            self._opened.find_key_prefixes(urls)
        except TableError as error:
            raise JoinError(str(error)) from None


def open_join(options: FeedOptions, captions: Captions | None) -> FeedJoin | None:
    """Return the join of a feed, None without a table. Raises JoinError, UnpairedJoin."""
    if options.join is not None:
        return FeedJoin(options, captions)
    if captions is not None and captions.joined_columns:
        column = captions.joined_columns[0]
        raise UnpairedJoin(f"the join lacks a table: captions are in its column {column!r}")
    return None


def open_unchecked_join(
    options: FeedOptions, captions: Captions | None, urls: Sequence[Shard]
) -> JoinedFields | None:
    """Return the join of some shards, without a check of how samples and rows match.

    Raises JoinError, UnpairedJoin.
    """
    join = open_join(options, captions)
    if join is None:
        return None
    join.find_key_prefixes(urls)
    join.fields.use = None
    return join.fields
