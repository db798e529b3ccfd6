"""The work of the second pass on one shard."""

from dataclasses import dataclass
from pathlib import Path

from wdsflow.joining.join_on import FieldToSet

from .look_shard import LookJob, ShardLook


@dataclass(frozen=True)
class GraftJob:
    """One shard to write to ``target``.

    Attributes:
        shard, look: the first pass over it, and its result.
        columns: in the order of the values of rows.
        decided: determines the rows of its samples.
    """

    shard: LookJob
    look: ShardLook
    target: Path
    fields: tuple[FieldToSet, ...]
    columns: tuple[str, ...]
    drop_unmatched: bool = False
    decided: str = ""

    @property
    def url(self) -> str:
        """The shard."""
        return self.shard.url
