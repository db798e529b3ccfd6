"""Opens a table to be joined while samples are read.

Builds its index once on a machine, and finds the prefix of the keys of each shard.
"""

from collections.abc import Sequence
from pathlib import Path

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError
from wdsflow.stages.caption_sources import JOIN, Captions
from wdsflow.table_files.errors import TableError
from wdsflow.text.secrets import redact

from .index.index_cache import default_cache, row_index
from .join_on import FieldToSet, parse_on, parse_set
from .join_options import JoinOptions, UnpairedJoin
from .joined_fields import JoinedFields
from .ledger_keys import key_prefixes
from .row_use import RowUse
from .table_files import locate_any_table


class OpenedJoin:
    """The join of samples with the table of ``options``.

    Args:
        options: with a table.
        captions: of samples; some may be columns of the table, which samples get under names of
            their own.

    Raises:
        UnpairedJoin: nothing is set from the table.
        TableError: the table cannot be read, or its index cannot be made.
    """

    def __init__(self, options: JoinOptions, captions: Captions | None = None) -> None:
        given = str(options.join)
        # For messages.
        name = redact(given)
        assert not isinstance(options.join_set, dict)
        fields = parse_set(options.join_set) if options.join_set else []
        if captions is not None:
            for column in captions.joined_columns:
                fields.append(FieldToSet(f"{JOIN}{column}", "", column))
        if not fields:
            raise UnpairedJoin(
                "the join lacks fields to set: say what to set from the table with join_set, such as txt=caption"
            )
        columns = tuple(dict.fromkeys(field.column for field in fields))
        on = parse_on(options.join_on)
        cache = default_cache() if options.join_cache is None else Path(options.join_cache)
        try:
            self._table = locate_any_table(given)
            index = row_index(self._table, name, on, columns, cache)
        except OSError as error:
            raise TableError(
                f"the index of {name} cannot be made: {error}; name another folder for it with join_cache (--join-cache)"
            ) from error
        used = {on.column, *columns}
        others = tuple(column for column in index.names if column not in used)
        self.fields = JoinedFields(
            index,
            name,
            on,
            tuple(fields),
            columns,
            options.join_drop_unmatched,
            others,
            ambiguous=options.join_ambiguous,
            use=RowUse(index, keeps_rows=options.join_ambiguous in ("first", "drop")),
        )

    def find_key_prefixes(self, urls: Sequence[Shard]) -> None:
        """Learn how the keys of shards are named in a ledger. Raises TableError."""
        if self.fields.on.kind != "key":
            return
        try:
            prefixes = key_prefixes(self._table, urls)
        except SourceError as error:
            raise TableError(str(error)) from None
        if any(prefixes):
            self.fields.prefixes = dict(zip(urls, prefixes, strict=True))
