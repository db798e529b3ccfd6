"""Fields of samples that come from table rows.

Finds the row of a sample, and the new contents of its members.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from xxhash import xxh3_128_hexdigest

from wdsflow.shards.caption_field import look_up, parse_json
from wdsflow.shards.shard import Shard
from wdsflow.stages.base import StageError
from wdsflow.text.utf8 import in_utf8

from .checked_columns import CHECKED_IMAGE
from .index.row_index import NO_ROW, WITHHELD, RowIndex
from .join_on import FieldToSet, JoinOn
from .join_options import Ambiguous
from .join_text import join_text
from .row_contents import LARGEST_JSON, row_contents, values_to_set
from .row_use import RowUse
from .set_json import BrokenJson, set_in_json
from .withheld_rows import is_withheld

# In place of a row: the sample has one, but nothing can be set in it.
NOTHING_SET = -2
JSON = "json"

Members = dict[str, bytes | int]


@dataclass
class JoinedFields:
    """The join of samples with a table. Picklable, without ``use``.

    Attributes:
        index: of the table.
        table: as the user named it.
        on: the value of the join.
        fields: that samples get.
        columns: of the values in a row.
        drop_unmatched: leave out samples without a row.
        other_columns: of the table, besides those that are used.
        prefixes: what precedes the keys of a shard in a ledger.
        ambiguous: what samples get whose value several rows, or several samples, have.
        withheld: by shard, a bit for each sample: whether it does not get its row, because other
            samples have it.
        use: notes which rows samples have, while all of them are listed for the first time.
    """

    index: RowIndex
    table: str
    on: JoinOn
    fields: tuple[FieldToSet, ...]
    columns: tuple[str, ...]
    drop_unmatched: bool = False
    other_columns: tuple[str, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    ambiguous: Ambiguous = "refuse"
    withheld: Mapping[Shard, bytes] = field(default_factory=lambda: MappingProxyType({}))
    use: RowUse | None = None

    def __post_init__(self) -> None:
        self._to_set = values_to_set(self.fields, self.columns)
        self.sets_in_json = any(value.name for value in self._to_set)
        sets_members = any(not value.name for value in self._to_set)
        self.fields_set = frozenset(value.field for value in self._to_set)
        # A sample whose json cannot be changed keeps all of its own members: to know which members
        # a sample has, its json must be read.
        self.needs_json = self.on.kind == JSON or (self.sets_in_json and sets_members)
        # Of the json, which is read to compare them.
        self._checked = [name for name in self.index.checked if name != CHECKED_IMAGE]
        self.checks_json = bool(self._checked)

    def __reduce__(self) -> tuple[object, ...]:
        rest = self.table, self.on, self.fields, self.columns, self.drop_unmatched, ()
        more = dict(self.prefixes), self.ambiguous, dict(self.withheld)
        return JoinedFields, (self.index, *rest, *more)

    def for_shard(self, shard: Shard) -> "JoinedFields":
        """Return the join of one shard, to be sent to a worker."""
        prefixes = {name: prefix for name, prefix in self.prefixes.items() if name == shard}
        withheld = {name: bits for name, bits in self.withheld.items() if name == shard}
        return replace(self, prefixes=prefixes, withheld=withheld, other_columns=(), use=None)

    def for_decoders(self) -> "JoinedFields":
        """Return the join for processes that make samples, whose rows are known then."""
        return replace(self, prefixes={}, withheld={}, other_columns=(), use=None)

    @property
    def withholds_rows(self) -> bool:
        """Whether some ambiguous samples get no row.

        Which ones is known only after all samples have been listed.
        """
        return self.ambiguous in ("first", "drop")

    def row_of(self, shard: Shard, number: int, key: str, json: bytes | None) -> int:
        """Return the index entry of a sample's row; NO_ROW if it has none.

        WITHHELD if it has a row but does not get it; NOTHING_SET if it has one but nothing can be
        set in it.

        Args:
            shard: has the sample.
            number: of the sample in the shard.
            key: of the sample.
            json: the content of its json, if ``needs_json``.
        """
        value = self.value_of(key, json)
        row = NO_ROW
        if value is not None:
            row = self.index.entry_of(self.prefixes.get(shard, "") + value)
        if row >= 0 and self.ambiguous == "drop" and self.index.has_several_rows(row):
            row = WITHHELD
        if self.use is not None:
            self.use.note(shard, value, row)
        bits = self.withheld.get(shard)
        if bits is not None and is_withheld(bits, number):
            return WITHHELD
        return NOTHING_SET if row >= 0 and "\0" in key else row

    def leaves_out(self, row: int) -> bool:
        """Return whether samples with this outcome of ``row_of`` are left out."""
        return self.drop_unmatched and row in (NO_ROW, WITHHELD)

    def value_of(self, key: str, json: bytes | None) -> str | None:
        """Return the value of a sample to join on, None if it has none."""
        if self.on.kind != JSON:
            return in_utf8(key)
        return None if json is None else join_text(look_up(_tree(json), self.on.name), JSON)

    def fields_of_row(self, row: int, json: bytes | None, json_size: int) -> frozenset[str] | None:
        """Return the fields that a row sets in a sample; None if it can set nothing.

        Args:
            row: its entry in the index.
            json: the content of the sample's json, if ``needs_json``.
            json_size: the bytes of its json, 0 if it has none.
        """
        contents = row_contents(self._to_set, self.index.row_values(row))
        names = frozenset(contents.whole)
        if not contents.inside:
            return names
        if json_size > LARGEST_JSON:
            return None
        if json is not None and not _can_set(json, contents.inside):
            return None
        return names | {JSON}

    def joined_members(self, row: int, members: Members, most: Callable[[str], int]) -> Members:
        """Return the members of a sample with the values of its row.

        Args:
            row: its entry in the index.
            members: those that were read from the shard.
            most: returns the most bytes of a field. Of a larger one its size is returned instead of
                its bytes.
        """
        contents = row_contents(self._to_set, self.index.row_values(row))
        joined = dict(members)
        whole = contents.whole
        if contents.inside:
            old = members.get(JSON, b"")
            # One that is too large to be read stays so.
            if not isinstance(old, int):
                try:
                    whole[JSON] = set_in_json(old, contents.inside)
                except BrokenJson:
                    return members
        for name, data in whole.items():
            size = len(data)
            joined[name] = data if size <= most(name) else size
        return joined

    def check_sample(self, row: int, image: bytes, members: Members) -> None:
        """Raise StageError if a sample is not that of its row: the table has another url or hash.

        Where several rows have the key of a sample, they are not compared.
        """
        if not self.index.checked or self.index.has_several_rows(row):
            return
        values = self.index.row_values(row)[len(self.columns) :]
        json = members.get(JSON)
        tree = _tree(json) if self._checked and isinstance(json, bytes) else None
        for name, (_, data) in zip(self.index.checked, values, strict=True):
            if data is None:
                continue
            if name == CHECKED_IMAGE:
                actual = xxh3_128_hexdigest(image) if image else None
            else:
                actual = join_text(look_up(tree, name), name)
            expected = data.decode()
            if actual is not None and actual != expected:
                raise StageError(f"other-{name}", f"the table has {expected}, the sample {actual}")

    def identity(self) -> dict[str, object]:
        """Return what determines the values that samples get, for states of the feed."""
        identity: dict[str, object] = {
            "table": self.index.digest,
            "on": str(self.on),
            "set": list(map(str, self.fields)),
            "drop unmatched": self.drop_unmatched,
        }
        if self.withholds_rows:
            identity["ambiguous"] = self.ambiguous
        return identity


def _can_set(json: bytes, values: Sequence[tuple[str, str]]) -> bool:
    try:
        set_in_json(json, values)
    except BrokenJson:
        return False
    return True


def _tree(json: bytes) -> object:
    """Return the content of a json, None if it is not valid."""
    with suppress(ValueError):
        return parse_json(json)
    return None
