"""The output folder of a run.

Its paths, the records of its finished shards, and the names of its outputs.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Range

from .counts import Counts
from .line import Line
from .lines_file import lines_paths, read_lines
from .refusals import refuse_inputs
from .unfinished import INSIDE

# Files, without extension.
MANIFEST, COSTS = "manifest", "costs"


@dataclass
class ShardRecord(Line):
    """A finished shard."""

    unrecorded_fields: ClassVar[frozenset[str]] = frozenset({"failing"})

    # Its index among all shards of the run.
    shard: int
    url: str
    # Of the output.
    name: str
    # Digest.
    recipe: str
    input: dict[str, object]
    samples: int = 0
    kept: int = 0
    # Kept, but not read as samples: their key is a duplicate.
    uncounted: int = 0
    # Term of the predicate -> samples.
    dropped: dict[str, int] = field(default_factory=dict)
    # Error -> samples.
    quarantined: dict[str, int] = field(default_factory=dict)
    # Images of kept samples, and their bytes before and after.
    resized: dict[str, int] = field(default_factory=dict)
    # Score: error -> samples, including those decided without it.
    failed: dict[str, int] = field(default_factory=dict)
    members: int = 0
    # Reason why members belong to no sample -> members.
    left_out: dict[str, int] = field(default_factory=dict)
    # Global PAX headers.
    headers: list[Range] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    # Identity of the tar, None if no sample was kept.
    output: dict[str, object] | None = None
    # Identity.
    ledger: dict[str, object] = field(default_factory=dict)
    # Identity.
    quarantine: dict[str, object] | None = None
    # "dropped TERM", "quarantined ERROR", "failed SCORE:
    # ERROR" -> key of the first such sample, and details.
    examples: dict[str, tuple[str, str]] = field(default_factory=dict)
    # Scores that failed for all samples: how often, error and detail. Not in the manifest.
    failing: dict[str, tuple[int, str, str]] = field(default_factory=dict)

    @property
    def counted(self) -> int:
        """The number of samples that readers find in the output."""
        return self.kept - self.uncounted

    @property
    def origin(self) -> dict[str, object]:
        """The inputs that determine its files."""
        return {"from": [self.shard, self.url], "recipe": self.recipe, "input": self.input}

    def sums(self) -> Iterable[Counts]:
        """Yield the counts of samples."""
        left_out = Counter(self.dropped)
        left_out.update(self.quarantined)
        yield Counts("samples", self.samples, self.kept, left_out)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        plain = super().to_dict()
        for name in ("uncounted", "resized"):
            if not plain[name]:
                del plain[name]
        return plain


@dataclass
class ShardFailure:
    """A shard that could not be processed; the next run retries it.

    ``kind``: that of a SourceError, "ledger" if its ledger does not match, otherwise "".
    ``missing``: the score that the ledger lacks, if that is the reason.
    """

    shard: int
    url: str
    name: str
    reason: str
    kind: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Layout:
    """The paths of one output folder; a shard is named by its output, such as ``00000.tar``."""

    folder: Path
    quarantine_folder: Path | None = None

    @cached_property
    def inside(self) -> Path:
        """The folder of wdsflow's own files."""
        return self.folder / INSIDE

    @property
    def run_file(self) -> Path:
        """The recipe of the run."""
        return self.inside / "run.json"

    def costs(self) -> list[Path]:
        """Return the files with what models took, in both passes and all slices."""
        return [
            path
            for folder in (self.inside, self.scored.inside)
            for path in sorted(folder.glob(f"{COSTS}*.json"))
        ]

    @property
    def has_ledgers(self) -> bool:
        """Whether a run was started here, even if it finished no shard."""
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

    def tar(self, name: str) -> Path:
        """Return the path of an output."""
        return self.folder / name

    def ledger(self, name: str) -> Path:
        """Return the path of a shard's ledger."""
        return self.inside / f"ledger/{_stem(name)}.parquet"

    @property
    def resolved_folder(self) -> Path:
        """The folder of values between two passes."""
        return self.inside / "resolved"

    def resolved(self, name: str, score: int) -> Path:
        """Return the path of the values that a comparing score has for the samples of a shard."""
        return self.resolved_folder / f"{_stem(name)}.{score}.json"

    @cached_property
    def quarantined(self) -> Path:
        """The folder of quarantined samples."""
        return self.quarantine_folder or self.inside / "quarantine"

    def quarantine(self, name: str) -> Path:
        """Return the path of a shard's quarantined samples."""
        return self.quarantined / name

    def reasons(self, name: str) -> Path:
        """Return the path of the reasons, next to the quarantined samples."""
        return self.quarantine(name).with_suffix(".jsonl")

    def folders(self) -> list[Path]:
        """Return the folders of outputs."""
        inside = self.inside
        return [
            self.folder,
            inside,
            inside / "ledger",
            self.resolved_folder,
            self.spool,
            self.quarantined,
        ]

    @property
    def spool(self) -> Path:
        """The folder in which shards are unpacked while they are processed."""
        return self.inside / "spool"


def _stem(name: str) -> str:
    return name.removesuffix(".tar")


def records_in_order(layout: Layout) -> list[ShardRecord]:
    """Return the finished shards of a run in their order."""
    records = read_lines(lines_paths(layout.inside, MANIFEST), ShardRecord)
    return sorted(records.values(), key=lambda record: record.shard)


def recorded_run(run_file: Path) -> dict[str, Any]:
    """Return the recorded request of a run, as JSON; empty if missing."""
    try:
        request = json.loads(run_file.read_bytes())
    except (OSError, ValueError):
        return {}
    return request if isinstance(request, dict) else {}


def recorded_recipe(run_file: Path) -> dict[str, Any]:
    """Return the recorded recipe of a run, as JSON; empty if missing."""
    recipe = recorded_run(run_file).get("recipe")
    return recipe if isinstance(recipe, dict) else {}


class QuarantineTaken(FileExistsError):
    """The quarantine folder is used for something else, or has files of the same names."""


def refuse_existing(layout: Layout, request: Mapping[str, Any]) -> None:
    """Raise FileExistsError if a file to be written exists, or is an input."""
    _refuse_mixed_quarantine(layout)
    for folder, targets in _files_to_write(layout, request):
        if folder == layout.quarantined and layout.quarantine_folder is None:
            # Only this run writes there.
            continue
        try:
            existing = sorted(targets & set(os.listdir(folder)))
        except (FileNotFoundError, NotADirectoryError):
            continue
        refuse_inputs(map(Shard.from_text, request["urls"]), [folder / name for name in existing])
        if existing:
            kind = FileExistsError if folder == layout.folder else QuarantineTaken
            raise kind(
                f"{folder / existing[0]} exists already, and no run wrote it: choose another folder"
            )


def quarantine_option(layout: Layout) -> str | None:
    """Return the quarantine folder of a run, relative to its folder."""
    if layout.quarantine_folder is None:
        return None
    return os.path.relpath(
        os.path.realpath(layout.quarantine_folder), os.path.realpath(layout.folder)
    )


def _refuse_mixed_quarantine(layout: Layout) -> None:
    """Raise FileExistsError if quarantined samples could mix with other files of the same names."""
    if layout.quarantine_folder is None:
        return
    quarantine = os.path.realpath(layout.quarantine_folder)
    out = os.path.realpath(layout.folder)
    inside = os.path.realpath(layout.inside)
    if quarantine == out or os.path.commonpath((quarantine, inside)) == inside:
        raise QuarantineTaken(
            f"{layout.quarantine_folder} is for the output: choose another folder for --quarantine"
        )


def _files_to_write(layout: Layout, request: Mapping[str, Any]) -> Iterator[tuple[Path, set[str]]]:
    """Yield each folder with the names of the files to be written there."""
    names = {str(name) for name in request["names"]}
    yield layout.folder, names
    yield layout.quarantined, names | {layout.reasons(name).name for name in names}
