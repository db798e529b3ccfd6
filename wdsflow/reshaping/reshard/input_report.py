"""What the first pass found in one input."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.records.counts import Counts
from wdsflow.shards.samples.tar_sample import is_harmless


class Apart(NamedTuple):
    """Samples whose members are not next to each other: how many, and the place of one among the samples of its tar."""

    samples: int
    place: int


@dataclass
class InputReport:
    """One input: its samples, and what is left out."""

    number: int
    url: str
    rows: int = 0  # samples that can be written
    samples: int = 0
    members: int = 0
    left_out: Counter[str] = field(default_factory=Counter)  # reason -> members that belong to no sample
    dropped: Counter[str] = field(default_factory=Counter)  # reason -> samples
    damage: list[str] = field(default_factory=list)
    identity: dict[str, Any] = field(default_factory=dict)
    copy: Path | None = None  # what to read instead: unpacked, or with plain headers
    is_local: bool = False  # a plain file of this machine
    apart: Apart = field(default_factory=lambda: Apart(0, 0))
    first: tuple[str, tuple[str, ...]] = ("", ())  # key and fields of its first sample
    last: tuple[str, tuple[str, ...]] = ("", ())

    @property
    def unread(self) -> bool:
        """Whether nothing of it could be read."""
        return bool(self.lost) and not self.members

    @property
    def lost(self) -> list[str]:
        """The damage that loses something."""
        return [damage for damage in self.damage if not is_harmless(damage)]

    @property
    def unusable(self) -> int:
        """Samples that cannot be copied."""
        return self.dropped.total()

    def check(self) -> None:
        """Raise RuntimeError if a sample is unaccounted for."""
        Counts("samples", self.samples, self.rows, self.dropped).check(str(self))
