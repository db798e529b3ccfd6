"""Where everything lies in the folder that a run writes."""

import glob
from dataclasses import dataclass
from pathlib import Path

INSIDE = "_wdsflow"  # no reader of shards looks into it


@dataclass(frozen=True)
class Layout:
    """The paths of one output folder; a shard is named by its output, such as ``00000.tar``.

    ``dense``: outputs are numbered again when all are there, and wait inside until then.
    """

    folder: Path
    quarantine_folder: Path | None = None
    dense: bool = False

    @property
    def inside(self) -> Path:
        """Where our own files lie."""
        return self.folder / INSIDE

    @property
    def run_file(self) -> Path:
        """What the run was asked to do."""
        return self.inside / "run.json"

    @property
    def scored(self) -> "Layout":
        """Where the first of two passes leaves its ledgers."""
        return Layout(self.inside / "scored")

    def manifest(self, index: int = 0, count: int = 1) -> Path:
        """Return the file with a line for each finished shard; each slice of a run has its own."""
        name = "manifest.jsonl" if count == 1 else f"manifest-{index:05d}-of-{count:05d}.jsonl"
        return self.inside / name

    def manifests(self) -> list[Path]:
        """Return the manifests that there are."""
        return sorted(self.inside.glob("manifest*.jsonl"))

    def lock(self, index: int = 0, count: int = 1) -> Path:
        """Return the file that a run holds as long as it works."""
        return self.inside / ("lock" if count == 1 else f"lock-{index:05d}-of-{count:05d}")

    def workers_lock(self, index: int = 0, count: int = 1) -> Path:
        """Return the file that workers on other machines hold as long as they live."""
        return self.lock(index, count).with_suffix(".workers")

    def workers_locks(self) -> list[Path]:
        """Return those that there are, of all slices."""
        return sorted(self.inside.glob("lock*.workers"))

    def tar(self, name: str) -> Path:
        """Return the path that an output is written to."""
        return (self.waiting if self.dense else self.folder) / name

    def part(self, name: str, number: int) -> Path:
        """Return the path of one of the tars that are written for a file of JSON lines."""
        return self.folder / f"{_stem(name)}-{number:06d}.tar"

    def parts(self, name: str) -> list[Path]:
        """Return those that there are."""
        return sorted(self.folder.glob(f"{glob.escape(_stem(name))}-{'[0-9]' * 6}.tar"))

    @property
    def waiting(self) -> Path:
        """Where outputs wait for their numbers."""
        return self.inside / "tars"

    @property
    def numbering(self) -> Path:
        """Which number each output was given."""
        return self.inside / "numbering.json"

    def ledger(self, name: str) -> Path:
        """Return the path of a shard's ledger."""
        return self.inside / "ledger" / f"{_stem(name)}.parquet"

    def resolved(self, name: str, score: int) -> Path:
        """Return the path of what a score that compares all samples said about those of a shard."""
        return self.inside / "resolved" / f"{_stem(name)}.{score}.json"

    @property
    def quarantined(self) -> Path:
        """The folder of quarantined samples."""
        return self.quarantine_folder or self.inside / "quarantine"

    def quarantine(self, name: str) -> Path:
        """Return the path of a shard's quarantined samples; reasons lie beside it as ``.jsonl``."""
        return self.quarantined / name

    def stats(self, name: str) -> Path:
        """Return the path of the scores beside an output of JSON lines."""
        return self.tar(name).with_suffix(".stats.jsonl")

    def reasons(self, name: str) -> Path:
        """Return the path of the reasons beside quarantined JSON lines."""
        return self.quarantine(name).with_suffix(".reasons.jsonl")

    def folders(self) -> list[Path]:
        """Return the folders that outputs may lie in."""
        inside = self.inside
        found = [self.folder, inside, inside / "ledger", inside / "resolved", inside / "spool", self.quarantined]
        return [*found, self.waiting] if self.dense else found

    @property
    def spool(self) -> Path:
        """Where shards are unpacked for as long as they are worked on."""
        return self.inside / "spool"


def _stem(name: str) -> str:
    return name.removesuffix(".tar" if name.endswith(".tar") else ".jsonl")
