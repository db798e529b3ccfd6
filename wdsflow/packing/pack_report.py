"""The report of a pack: every row is accounted for."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.records.counts import Counts, by_count
from wdsflow.records.line import OneFile
from wdsflow.records.report import OutputsReport
from wdsflow.records.working_folder import remote_url
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, size

from .files.field_types import is_media
from .left_out import Examples, LeftOut
from .unusable import HARMLESS

if TYPE_CHECKING:
    from typing_extensions import Self

# Of tables, fields and shards.
_MOST_LINES = 10
_TRAINED = frozenset(IMAGE_FIELDS)


@dataclass
class PackedShard(OneFile):
    """One shard.

    Attributes:
        rows: of the table that the plan has for it.
        samples: that it holds.
        bytes: of the file.
        left_out: rows that became no sample when their files were read, by reason.
        fields: samples that have a file of this name.
    """

    rows: int = 0
    samples: int = 0
    bytes: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)

    @property
    def counted(self) -> int:
        """The number of its samples."""
        return self.samples

    def sums(self) -> Iterable[Counts]:
        """Yield the counts, which must add up."""
        yield Counts("rows", self.rows, self.samples, self.left_out)


@dataclass
class PackReport(OutputsReport[PackedShard]):
    """The outcome of all rows.

    Attributes:
        rows: that were read.
        tables: the tables and folders, and what is known of each: the layout, files that were
            ignored.
        planned_out: rows that were left out before shards were cut, by reason.
        examples: of rows that were left out, the first of each reason.
        changed_keys: keys that are not those of the table, as they are not safe for all readers;
            the first of them.
        listed: the file that lists all rows that were left out, "" if there are none.
        removed: shards of an earlier run, which now has fewer.
        folder: the one with the shards; "" if nothing is written.
    """

    rows: int = 0
    tables: list[tuple[str, str]] = field(default_factory=list)
    planned_out: Counter[str] = field(default_factory=Counter)
    examples: Examples = field(default_factory=dict)
    changed_keys: tuple[int, str] = (0, "")
    listed: str = ""
    removed: int = 0
    folder: str = ""
    dry_run: bool = False

    @property
    def samples(self) -> int:
        """Samples of all shards."""
        return self.total("samples")

    @property
    def left_out(self) -> Counter[str]:
        """Rows that became no sample, by reason."""
        return self.planned_out + self.merged("left_out")

    @property
    def damaged(self) -> int:
        """Rows that were left out because files or values are not what the table says."""
        return sum(count for reason, count in self.left_out.items() if reason not in HARMLESS)

    def naming(self, out: str | os.PathLike[str], folder: Path) -> "Self":
        """Name the outputs by their url ``out`` instead of the working folder.

        Returns the report.
        """
        if remote_url(out) is not None:
            url = str(out).rstrip("/")
            self.folder, self.listed = (
                path.replace(str(folder), url) for path in (self.folder, self.listed)
            )
        return super().naming(out, folder)

    def check(self) -> None:
        """Raise RuntimeError if a row is unaccounted for."""
        super().check()
        Counts("rows", self.rows, self.samples, self.left_out).check("all tables")

    def _location(self, row: LeftOut) -> str:
        column = f", column {escape(row.column, 60)}" if row.column else ""
        return f"{escape(self.tables[row.source][0], 200)}, row {row.row:,}{column}"

    def lines(self) -> Iterable[str]:
        """Yield the report."""
        for named, layout in self.tables[:_MOST_LINES]:
            yield f"{escape(named, 300)}: {layout}"
        if len(self.tables) > _MOST_LINES:
            yield f"and {how_many(len(self.tables) - _MOST_LINES, 'more table')}"
        yield from self.again_lines("written", _MOST_LINES)
        if self.removed:
            yield f"removed: {how_many(self.removed, 'shard')} of an earlier run of other rows"
        yield Counts("rows", self.rows, self.samples, self.left_out).line(
            "sample" if self.samples == 1 else "samples"
        )
        for reason, count in by_count(self.left_out):
            yield f"  left out: {count:,} x {reason}"
            for row in self.examples.get(reason, []):
                yield f"    {self._location(row)}: {escape(row.detail, 400)}"
        if self.listed:
            yield f"  all of them: {escape(self.listed, 300)}"
        changed_keys, first_changed = self.changed_keys
        if changed_keys:
            yield f"keys: {changed_keys:,} changed for readers, such as {escape(first_changed, 300)}"
        yield from self._field_lines()
        yield self._shards_line()

    def _field_lines(self) -> Iterator[str]:
        """Yield which fields have images that readers of image-text pairs do not look for."""
        others = []
        for name, count in self.merged("fields").items():
            if is_media(name) and name.rpartition(".")[2] not in _TRAINED:
                others.append((name, count))
        others.sort(key=lambda item: -item[1])
        image_fields = ", ".join(IMAGE_FIELDS)
        for name, count in others[:_MOST_LINES]:
            yield f"field {escape(name, 60)}: {how_many(count, 'sample')}; readers of image-text pairs take {image_fields}"

    def _shards_line(self) -> str:
        written = [shard for shard in self.shards if shard.samples]
        if not written:
            return "no samples: nothing written"
        counts = [shard.samples for shard in written]
        least, most = min(counts), max(counts)
        samples_of_shard = f"{least:,}"
        if least < most:
            samples_of_shard += f" to {most:,}"
        total = size(self.total("bytes"))
        folder = f", in {escape(self.folder, 300)}{self.done_before}" if self.folder else ""
        verb = "would be " if self.dry_run else ""
        return f"{verb}{how_many(sum(counts), 'sample')} in {how_many(len(counts), 'shard')} of {samples_of_shard}, {total}{folder}"
