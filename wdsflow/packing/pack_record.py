"""The record of a pack.

A file next to each shard lists the rows that were left out when their files were read.
"""

from collections.abc import Iterable
from pathlib import Path

from wdsflow.records.file_identity import MUST_EXIST, Identity
from wdsflow.records.output_record import OutputRecord
from wdsflow.records.unfinished import INSIDE

from .pack_report import PackedShard

_LISTINGS = "pack-left-out"


def listing_of(folder: Path, name: str) -> Path:
    """Return the path of the list of rows that were left out of a shard.

    The file does not exist if there are none.
    """
    return folder / INSIDE / _LISTINGS / f"{name.removesuffix('.tar')}.jsonl"


class PackRecord(OutputRecord[PackedShard]):
    """A shard is done if its listing exists, too: so a run that resumes lists all rows."""

    def remove(self) -> None:
        """Remove all shards and listings."""
        super().remove()
        for name in self.outputs:
            listing_of(self.folder, name).unlink(missing_ok=True)

    def files(self, line: PackedShard) -> Iterable[tuple[Path, Identity]]:
        """Return the shard and its listing."""
        yield from super().files(line)
        if line.left_out:
            yield listing_of(self.folder, line.name), MUST_EXIST
