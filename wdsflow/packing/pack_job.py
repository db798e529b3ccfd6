"""One shard to write: the rows of the plan, and the files that they name."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .files.media_files import MediaFiles
from .files.stored_bytes import StoredBytes
from .rows.stored_rows import PlannedRow, StoredRows

# Version of the result.
_CODE = 1


@dataclass(frozen=True, eq=False)
class PackJob:
    """One shard to write: the rows of the plan from ``start`` up to ``end``, in order.

    It can be sent to another process if ``travels`` is true.

    Attributes:
        plan: all rows of the run.
        files: the files of each table.
        stored: the bytes of images that were in cells.
        target: the shard.
        listing: the file for rows that are left out.
    """

    plan: StoredRows
    files: tuple[MediaFiles, ...]
    stored: StoredBytes
    start: int
    end: int
    target: Path
    listing: Path

    def rows(self) -> Iterator[PlannedRow]:
        """Yield the rows."""
        return self.plan.planned_rows(self.start, self.end)

    @property
    def travels(self) -> bool:
        """Whether another process can write it."""
        return all(files.travels for files in self.files)

    @property
    def is_remote(self) -> bool:
        """Whether files are in an object store, where each takes a while."""
        return not all(files.has_sizes for files in self.files)


def made_from(job: PackJob) -> dict[str, object]:
    """Return what determines the bytes of a shard.

    These are keys, texts, and paths, sizes and times of files.
    """
    from xxhash import xxh3_128

    digest = xxh3_128()
    for row in job.plan.raw_rows(job.start, job.end):
        digest.update(row)
    return {"code": _CODE, "rows": digest.hexdigest()}
