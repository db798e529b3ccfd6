"""One input of a reshard, and the scratch files that belong to it."""

from dataclasses import dataclass
from pathlib import Path

from wdsflow.shards.shard import Shard

from .row_file import RowFile


@dataclass(frozen=True)
class InputJob:
    """One input to read.

    Attributes:
        number: its position among the inputs.
        url: the shard.
        scratch: a folder for the files of all inputs.
        anywhere: samples will be read in any order, so a compressed or remote input is copied into
            ``scratch``.
        keys: the keys are recorded as well.
        allow_pipe: ``url`` may be a shell command.
    """

    number: int
    url: Shard
    scratch: Path
    anywhere: bool = False
    keys: bool = False
    allow_pipe: bool = False

    @property
    def rows(self) -> RowFile:
        """The file for the rows of its samples."""
        return RowFile(self.scratch / f"{self.number}.rows")

    @property
    def key_file(self) -> Path:
        """The file for the keys of the input's samples.

        Each key is preceded by its length in 4 bytes, little-endian.
        """
        return self.scratch / f"{self.number}.keys"

    @property
    def copies(self) -> Path:
        """The folder for copies of inputs."""
        return self.scratch / "copies"
