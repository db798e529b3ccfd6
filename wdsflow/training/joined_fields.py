"""Fields of samples that come from the rows of a table: which row a sample has, and what its members become."""

import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from xxhash import xxh3_128_hexdigest

from wdsflow.joining.checked_columns import CHECKED_IMAGE
from wdsflow.joining.join_on import FieldToSet, JoinOn
from wdsflow.joining.join_text import join_text
from wdsflow.joining.row_contents import LARGEST_JSON, row_contents, values_to_set
from wdsflow.joining.row_index import NO_ROW, RowIndex
from wdsflow.joining.set_json import BrokenJson, set_in_json
from wdsflow.shards.caption_field import look_up, parse_json
from wdsflow.shards.shard import Shard
from wdsflow.stages.base import StageError
from wdsflow.text.utf8 import in_utf8
from wdsflow.training.sample_tasks import Blob

if TYPE_CHECKING:
    from numpy.typing import NDArray

# In place of a row: the sample has one, but nothing can be set in it.
NOTHING_SET = -2
_EXAMPLES = 3
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
    use: "RowUse | None" = None

    def __post_init__(self) -> None:
        self._to_set = values_to_set(self.fields, self.columns)
        inside = any(value.name for value in self._to_set)
        whole = {value.field for value in self._to_set if not value.name}
        self.sets_inside = inside
        self.sets = frozenset(value.field for value in self._to_set)
        # A sample whose json cannot be changed keeps all of its own members: to know which members a
        # sample has, its json must be read.
        self.lists_by_json = self.on.kind == JSON or (inside and bool(whole))
        # Of the json, which is read to compare them.
        self._checked = [name for name in self.index.checked if name != CHECKED_IMAGE]
        self.checks_json = bool(self._checked)

    def __reduce__(self) -> tuple[object, ...]:
        rest = self.table, self.on, self.fields, self.columns, self.drop_unmatched, ()
        return JoinedFields, (self.index, *rest, dict(self.prefixes))

    def row_of(self, shard: Shard, key: str, json: bytes | None) -> int:
        """Return the entry of the row of a sample, NO_ROW if it has none. ``json``: its content, if ``lists_by_json``."""
        value = self.value_of(key, json)
        row = NO_ROW
        if value is not None:
            row = self.index.find(self.prefixes.get(shard, "") + value)
        if self.use is not None:
            self.use.note(shard, value, row)
        return NOTHING_SET if row >= 0 and "\0" in key else row

    def value_of(self, key: str, json: bytes | None) -> str | None:
        """Return the value of a sample to join on, None if it has none."""
        if self.on.kind != JSON:
            return in_utf8(key)
        return None if json is None else join_text(look_up(_tree(json), self.on.name), JSON)

    def names_set(
        self, row: int, fields: Mapping[str, Blob], json: bytes | None
    ) -> frozenset[str] | None:
        """Return the fields that a row sets in a sample with these members; None if it can set nothing.

        ``json``: its content, if ``lists_by_json``.
        """
        contents = row_contents(self._to_set, self.index.values(row))
        names = frozenset(contents.whole)
        if not contents.inside:
            return names
        blob = fields.get(JSON)
        if blob is not None and blob.size > LARGEST_JSON:
            return None
        if json is not None and not _can_set(json, contents.inside):
            return None
        return names | {JSON}

    def members(self, row: int, members: Members, most: Callable[[Blob], int]) -> Members:
        """Return the members of a sample with the values of its row.

        Args:
            row: its entry in the index.
            members: those that were read from the shard.
            most: returns the most bytes of a member. Of a larger one its size is returned instead of its bytes.
        """
        contents = row_contents(self._to_set, self.index.values(row))
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
            joined[name] = data if size <= most(Blob(name, size, -1)) else size
        return joined

    def check(self, row: int, image: bytes, members: Members) -> None:
        """Raise StageError if a sample is not that of its row: the table has another url or hash.

        Where several rows have the key of a sample, they are not compared.
        """
        if not self.index.checked or self.index.has_several_rows(row):
            return
        values = self.index.values(row)[len(self.columns) :]
        json = members.get(JSON)
        tree = _tree(json) if self._checked and isinstance(json, bytes) else None
        for name, (_, data) in zip(self.index.checked, values, strict=True):
            if data is None:
                continue
            if name == CHECKED_IMAGE:
                found = xxh3_128_hexdigest(image) if image else None
            else:
                found = join_text(look_up(tree, name), name)
            expected = data.decode()
            if found is not None and found != expected:
                raise StageError(f"other-{name}", f"the table has {expected}, the sample {found}")

    def identity(self) -> dict[str, object]:
        """Return what determines the values that samples get, for states of the feed."""
        return {
            "table": self.index.digest,
            "on": str(self.on),
            "set": list(map(str, self.fields)),
            "drop unmatched": self.drop_unmatched,
        }


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


class RowUse:
    """Which rows samples have: of all samples that a rank lists, each shard once. Thread-safe.

    Attributes:
        samples: that have been listed.
        matched: those with a row.
        several: those whose value is in several rows.
        rows: a bit for each entry of the index: whether a sample has it.
        shared: likewise: whether several samples of this rank have it.
        values: to join on, of the first samples.
        examples: values of rows that are ambiguous.
    """

    def __init__(self, index: RowIndex) -> None:
        import numpy as np

        self.samples = self.matched = self.several = 0
        self.rows: NDArray[np.uint8] = np.zeros(-(-index.entries // 8), np.uint8)
        self.shared: NDArray[np.uint8] = np.zeros_like(self.rows)
        self.values: list[str] = []
        self.examples: list[str] = []
        self._index = index
        self._noted: dict[Shard, array[int]] = {}
        self._done: set[Shard] = set()
        self._lock = threading.Lock()

    def note(self, shard: Shard, value: str | None, row: int) -> None:
        """Note the value to join on, and the row, of the next sample of a shard."""
        if value is not None and len(self.values) < _EXAMPLES:
            self.values.append(value)
        self._noted.setdefault(shard, array("q")).append(row)

    def add(self, shard: Shard) -> None:
        """Add the samples of a shard, all of which have been noted."""
        noted = self._noted.pop(shard, array("q"))
        with self._lock:
            # A shard that is named twice has the same samples.
            if shard not in self._done:
                self._done.add(shard)
                self._add(noted)

    def _add(self, noted: "Sequence[int]") -> None:
        import numpy as np

        self.samples += len(noted)
        all_rows = np.asarray(noted, np.int64)
        matched = all_rows[all_rows >= 0]
        self.matched += len(matched)
        rows, counts = np.unique(matched, return_counts=True)
        masks = np.left_shift(1, rows & 7).astype(np.uint8)
        is_shared = (counts > 1) | ((self.rows[rows >> 3] & masks) != 0)
        np.bitwise_or.at(self.rows, rows >> 3, masks)
        np.bitwise_or.at(self.shared, rows[is_shared] >> 3, masks[is_shared])
        several: list[int] = []
        if self._index.repeated:
            several = [row for row in matched.tolist() if self._index.has_several_rows(row)]
        self.several += len(several)
        for row in rows[is_shared].tolist() + several:
            if len(self.examples) == _EXAMPLES:
                break
            value = self._index.value(row)
            if value not in self.examples:
                self.examples.append(value)
