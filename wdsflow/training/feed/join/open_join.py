"""Opens the table that a feed joins: its index, made once on a machine, and the keys of its shards."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from wdsflow.joining.index_cache import default_cache, row_index
from wdsflow.joining.join_on import parse_on, parse_set
from wdsflow.joining.ledger_keys import key_prefixes
from wdsflow.joining.table_files import locate_any_table
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError
from wdsflow.table_files.errors import NoColumn, NoTable, TableError
from wdsflow.training.feed_options import FeedOptions, JoinError
from wdsflow.training.joined_fields import JoinedFields, RowUse
from wdsflow.training.stalls.field_fixes import command


class OpenedJoin:
    """The join of a feed. Raises JoinError if the table cannot be read."""

    def __init__(self, options: FeedOptions) -> None:
        assert options.join is not None
        name = str(options.join)
        fields = tuple(parse_set(options.join_set))
        columns = tuple(dict.fromkeys(field.column for field in fields))
        on = parse_on(options.join_on)
        cache = default_cache() if options.join_cache is None else Path(options.join_cache)
        try:
            self._table = locate_any_table(name)
            index = row_index(self._table, name, on, columns, cache)
        except TableError as error:
            fixes = [*error.advice, *_similar(error, options)]
            raise JoinError("\n  ".join([str(error), *fixes])) from None
        except OSError as error:
            raise JoinError(
                f"the index of {name} cannot be made: {error}; name another folder for it with join_cache"
            ) from error
        used = {on.column, *columns}
        others = tuple(column for column in index.names if column not in used)
        self.fields = JoinedFields(
            index,
            name,
            on,
            fields,
            columns,
            options.join_drop_unmatched,
            others,
            use=RowUse(index),
        )

    def begin(self, urls: Sequence[Shard]) -> None:
        """Learn how the keys of shards are named in a ledger. Raises JoinError."""
        try:
            prefixes = key_prefixes(self._table, urls)
        except (TableError, SourceError) as error:
            raise JoinError(str(error)) from None
        if any(prefixes):
            self.fields.prefixes = dict(zip(urls, prefixes, strict=True))


def opened_join(options: FeedOptions, urls: Sequence[Shard]) -> JoinedFields:
    """Return the join of some shards, whose samples are not noted. Raises JoinError."""
    join = OpenedJoin(options)
    join.begin(urls)
    join.fields.use = None
    return join.fields


def _similar(error: TableError, options: FeedOptions) -> Iterator[str]:
    """Yield the command with a table, or a column, of a similar name."""
    if isinstance(error, NoTable) and error.near:
        yield f"such as: {command(options, join=error.near)}"
    if not isinstance(error, NoColumn):
        return
    near = error.near(error.column)
    if not near or near == error.column:
        return
    if parse_on(options.join_on).column == error.column:
        yield f"such as: {command(options, join_on=f'key={near}')}"
        return
    sets = []
    for text in options.join_set:
        target, _, column = text.partition("=")
        sets.append(f"{target}={near if column == error.column else column}")
    yield f"such as: {command(options, join_set=tuple(sets))}"
