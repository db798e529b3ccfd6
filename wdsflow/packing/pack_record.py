"""The record of a pack: next to each shard, a file that lists the rows that were left out when their files were read."""

from collections.abc import Iterable
from pathlib import Path

from wdsflow.records.line import THERE, Identity
from wdsflow.records.output_record import OutputRecord
from wdsflow.records.unfinished import INSIDE, begin_shards, undo_begin

from .pack_report import PackedShard

_LISTINGS = "pack-left-out"


def listing_of(folder: Path, name: str) -> Path:
    """Return the file that lists the rows that were left out of a shard; it does not exist if there are none."""
    return folder / INSIDE / _LISTINGS / f"{name.removesuffix('.tar')}.jsonl"


class PackRecord(OutputRecord[PackedShard]):
    """A shard is done if its listing exists, too: so a run that resumes lists all rows."""

    def mark_reading(self) -> None:
        """Mark a folder without shards as unfinished while tables are read: a killed run is then known. Raises OSError."""
        if not self.outputs:
            begin_shards(self.folder, self._run, 0)
            self._stack.callback(self._forget_reading)

    def _forget_reading(self) -> None:
        if not self._is_begun:
            undo_begin(self.folder)

    def remove(self) -> None:
        """Remove all shards and listings."""
        super().remove()
        for name in self.outputs:
            listing_of(self.folder, name).unlink(missing_ok=True)

    def files(self, line: PackedShard) -> Iterable[tuple[Path, Identity]]:
        """Return the shard and its listing."""
        yield from super().files(line)
        if line.left_out:
            yield listing_of(self.folder, line.name), THERE
