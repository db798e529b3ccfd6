"""The paths in the output folder of a run, and its finished shards."""

from dataclasses import dataclass
from pathlib import Path

from wdsflow.filtering.kinds import kind_of
from wdsflow.records.line import lines_paths, read_lines
from wdsflow.records.unfinished import INSIDE

from .shard_record import ShardRecord


@dataclass(frozen=True)
class Layout:
    """The paths of one output folder; a shard is named by its output, such as ``00000.tar``.

    ``dense``: outputs wait inside until all are done, and are then numbered.
    """

    folder: Path
    quarantine_folder: Path | None = None
    dense: bool = False

    @property
    def inside(self) -> Path:
        """The folder of wdsflow's own files."""
        return self.folder / INSIDE

    @property
    def run_file(self) -> Path:
        """The recipe of the run."""
        return self.inside / "run.json"

    @property
    def has_ledgers(self) -> bool:
        """Whether a run worked here, even one that finished no shard."""
        return self.run_file.is_file() or (self.inside / "ledger").is_dir()

    @property
    def scored(self) -> "Layout":
        """The folder of the first pass's ledgers."""
        return Layout(self.inside / "scored")

    def lock(self, index: int = 0, count: int = 1) -> Path:
        """Return the lock file of a run."""
        return self.inside / ("lock" if count == 1 else f"lock-{index:05d}-of-{count:05d}")

    def workers_lock(self, index: int = 0, count: int = 1) -> Path:
        """Return the lock file of workers on other machines."""
        return self.lock(index, count).with_suffix(".workers")

    def workers_locks(self) -> list[Path]:
        """Return the existing lock files of all slices."""
        return sorted(self.inside.glob("lock*.workers"))

    def tar(self, name: str) -> Path:
        """Return the path of an output."""
        return (self.waiting if self.dense else self.folder) / name

    @property
    def waiting(self) -> Path:
        """The folder in which outputs wait for their numbers."""
        return self.inside / "tars"

    @property
    def numbering(self) -> Path:
        """The file with the number of each output."""
        return self.inside / "numbering.json"

    def ledger(self, name: str) -> Path:
        """Return the path of a shard's ledger."""
        return self.inside / "ledger" / f"{_stem(name)}.parquet"

    @property
    def resolved_folder(self) -> Path:
        """The folder of values between two passes."""
        return self.inside / "resolved"

    def resolved(self, name: str, score: int) -> Path:
        """Return the path of the values that a comparing score has for the samples of a shard."""
        return self.resolved_folder / f"{_stem(name)}.{score}.json"

    @property
    def quarantined(self) -> Path:
        """The folder of quarantined samples."""
        return self.quarantine_folder or self.inside / "quarantine"

    def quarantine(self, name: str) -> Path:
        """Return the path of a shard's quarantined samples."""
        return self.quarantined / name

    def reasons(self, name: str) -> Path:
        """Return the path of the reasons, next to the quarantined samples."""
        return self.quarantine(name).with_suffix(kind_of(name).reasons)

    def folders(self) -> list[Path]:
        """Return the folders of outputs."""
        inside = self.inside
        found = [self.folder, inside, inside / "ledger", self.resolved_folder, self.spool, self.quarantined]
        return [*found, self.waiting] if self.dense else found

    @property
    def spool(self) -> Path:
        """The folder in which shards are unpacked while they are processed."""
        return self.inside / "spool"


def _stem(name: str) -> str:
    return name.removesuffix(kind_of(name).ending)


MANIFEST = "manifest"  # without extension


def records_in_order(layout: Layout) -> list[ShardRecord]:
    """Return the finished shards of a run in their order."""
    found = read_lines(lines_paths(layout.inside, MANIFEST), ShardRecord)
    return sorted(found.values(), key=lambda record: record.shard)
