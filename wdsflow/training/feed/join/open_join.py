"""Opens the table that a feed joins: its index, made once on a machine, and the keys of its shards."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from wdsflow.joining.index_cache import default_cache, row_index
from wdsflow.joining.join_on import FieldToSet, parse_on, parse_set
from wdsflow.joining.ledger_keys import key_prefixes
from wdsflow.joining.table_files import locate_any_table
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError
from wdsflow.table_files.errors import NoColumn, NoTable, TableError
from wdsflow.text.secrets import redact
from wdsflow.training.caption_sources import JOIN, Captions
from wdsflow.training.feed_options import FeedOptions, JoinError, UnpairedJoin
from wdsflow.training.joined_fields import JoinedFields
from wdsflow.training.row_use import RowUse
from wdsflow.training.stalls.field_fixes import command, requested_captions


class OpenedJoin:
    """The join of a feed.

    ``captions``: of its samples, some of which may be columns of the table. Raises JoinError if the
    table cannot be read; UnpairedJoin if nothing is set from it.
    """

    def __init__(self, options: FeedOptions, captions: Captions | None) -> None:
        assert options.join is not None
        given = str(options.join)
        # For messages.
        name = redact(given)
        fields = _fields_of(options, captions)
        columns = tuple(dict.fromkeys(field.column for field in fields))
        on = parse_on(options.join_on)
        cache = default_cache() if options.join_cache is None else Path(options.join_cache)
        try:
            self._table = locate_any_table(given)
            index = row_index(self._table, name, on, columns, cache)
        except TableError as error:
            fixes = [*error.advice, *_similar(error, options)]
            raise JoinError(redact("\n  ".join([str(error), *fixes]))) from None
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
        if self.fields.on.kind != "key":
            return
        try:
            prefixes = key_prefixes(self._table, urls)
        except (TableError, SourceError) as error:
            raise JoinError(str(error)) from None
        if any(prefixes):
            self.fields.prefixes = dict(zip(urls, prefixes, strict=True))


def open_join(options: FeedOptions, captions: Captions | None) -> OpenedJoin | None:
    """Return the join of a feed, None without a table. Raises JoinError, UnpairedJoin."""
    if options.join is not None:
        return OpenedJoin(options, captions)
    if captions is not None and captions.joined_columns:
        column = captions.joined_columns[0]
        raise UnpairedJoin(f"the join lacks a table: captions are in its column {column!r}")
    return None


def open_unchecked_join(
    options: FeedOptions, captions: Captions | None, urls: Sequence[Shard]
) -> JoinedFields | None:
    """Return the join of some shards, for which nobody checks how samples and rows match. Raises JoinError, UnpairedJoin."""
    join = open_join(options, captions)
    if join is None:
        return None
    join.begin(urls)
    join.fields.use = None
    return join.fields


def _fields_of(options: FeedOptions, captions: Captions | None) -> tuple[FieldToSet, ...]:
    """Return the fields that samples get: those to set, and captions."""
    fields = parse_set(options.join_set) if options.join_set else []
    if captions is not None:
        columns = captions.joined_columns
        fields += [FieldToSet(f"{JOIN}{column}", "", column) for column in columns]
    if not fields:
        raise UnpairedJoin(
            "the join lacks fields to set: say what to set from the table with join_set, such as txt=caption"
        )
    return tuple(fields)


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
        value = options.join_on.partition("=")[0]
        yield f"such as: {command(options, join_on=f'{value}={near}')}"
        return
    changed: dict[str, str | tuple[str, ...]] = {}
    captions = requested_captions(options)
    if captions is not None and error.column in captions.joined_columns:
        changed["caption"] = str(captions.with_column(error.column, near))
    sets = []
    for text in options.join_set:
        target, _, column = text.partition("=")
        sets.append(f"{target}={near if column == error.column else column}")
    if sets != list(options.join_set):
        changed["join_set"] = tuple(sets)
    if changed:
        yield f"such as: {command(options, **changed)}"
