"""What is served of a shard: the samples that a ledger keeps, or grafted ones."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from wdsflow.filtering.deciding.ledger_subset import LedgerSubset
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.shard.kept_pieces import kept_pieces
from wdsflow.shards.source.base import Source

from .tar_view import Piece


class ChosenSamples(Protocol):
    """The samples of shards, by the numbers of the shards.

    ``quick``: a record costs about as much as the pieces. Both functions raise ValueError, such as LedgerError, if a ledger or table does not fit; OSError, such as SourceError,
    if the shard cannot be read or has changed.
    """

    quick: bool

    def pieces(self, number: int, source: Source) -> tuple[Iterable[Piece], ShardRecord]:
        """Return the parts of the tar that is served, without its end, and what becomes of all samples."""

    def record(self, number: int) -> ShardRecord:
        """Return what becomes of all samples of a shard."""


class LedgerSamples:
    """The samples that a ledger keeps: see ``ChosenSamples``."""

    def __init__(self, urls: Sequence[str], choice: LedgerSubset) -> None:
        self._urls, self._choice = list(urls), choice
        self.quick = not choice.recipe.stages  # these run again on all kept samples

    def pieces(self, number: int, source: Source) -> tuple[Iterable[Piece], ShardRecord]:
        """Return the parts of the tar that ``cut`` writes."""
        rows, record = self._choice.shard(self._urls[number]).decide(number)
        return kept_pieces(source, record.url, self._choice.recipe.stages, rows, record.headers), record

    def record(self, number: int) -> ShardRecord:
        """Return what becomes of all samples of a shard."""
        return self._choice.shard(self._urls[number]).decide(number)[1]
