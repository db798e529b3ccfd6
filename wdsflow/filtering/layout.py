"""Where everything lies in the folder that a run writes."""

from dataclasses import dataclass
from pathlib import Path

INSIDE = "_wdsflow"  # no reader of shards looks into it


@dataclass(frozen=True)
class Layout:
    """The paths of one output folder; a shard is named by its output, such as ``00000.tar``."""

    folder: Path
    quarantine_folder: Path | None = None

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

    def tar(self, name: str) -> Path:
        """Return the path of the output."""
        return self.folder / name

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

    def folders(self) -> list[Path]:
        """Return the folders that outputs may lie in."""
        inside = self.inside
        return [self.folder, inside, inside / "ledger", inside / "resolved", inside / "spool", self.quarantined]

    @property
    def spool(self) -> Path:
        """Where shards are unpacked for as long as they are worked on."""
        return self.inside / "spool"


def _stem(name: str) -> str:
    return name.removesuffix(".tar")
