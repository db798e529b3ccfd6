"""The samples of shards that a recipe keeps, by the scores in ledgers.

Like ``filter``, without output.
"""

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from wdsflow.filtering.ledger.ledger_metadata import (
    LedgerError,
    check_same_shard,
    no_ledgers,
    read_metadata,
)
from wdsflow.filtering.ledger.read_ledger import read_scored
from wdsflow.filtering.ledger.sample_table import LedgerRow, quarantine_same_key_neighbours
from wdsflow.filtering.recipe.recipe import Recipe, canonical_recipe, fixed_conditions
from wdsflow.pieces.pieces import with_headers
from wdsflow.records.run_folder import Layout, ShardRecord, records_in_order
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.source.base import Range, SourceError, canonical_name, local_folder

from .compare_samples import compare_samples
from .compared_values import add_compared
from .plan import plan_of
from .sample_outcomes import set_outcomes
from .stored_scores import check_scores, with_ledger_options


class StagedLedger(LedgerError):
    """Ledgers of samples that stages changed: those in the shards differ."""


class UnknownShard(LedgerError):
    """A shard that was not scored."""


class KeptSamples(NamedTuple):
    """The kept samples of a shard.

    Attributes:
        offsets: the first byte and the byte after the last of each range, of samples and of global
            headers before them.
        kept: the number of kept samples.
        samples: the number of all samples of the shard.
        digest: the digest of the offsets.
    """

    offsets: Sequence[int]
    kept: int
    samples: int
    digest: bytes

    @property
    def ranges(self) -> list[Range]:
        """The ranges of the (uncompressed) tar, sorted; neighbours are joined."""
        return list(zip(self.offsets[::2], self.offsets[1::2], strict=True))


@dataclass(frozen=True)
class ShardLedger:
    """A shard and its ledger.

    ``resolved``: the folder with the values of scores that compare samples. ``decided``: the kept
    samples, if they are decided already.
    """

    url: Shard
    name: str
    scored: Layout
    recipe: Recipe
    resolved: Layout | None = None
    decided: KeptSamples | None = None

    def kept(self) -> KeptSamples:
        """Return the kept samples.

        Reads the ledger, and a few pieces of the shard to compare it with.

        Raises LedgerError if there is no ledger, if it lacks a required score (MissingScore), or if
        the shard has changed since; SourceError if the shard cannot be read.
        """
        if self.decided is not None:
            return self.decided
        rows, headers = self.rows()
        ranges = [(row.start, row.end) for row in rows if row.outcome == "kept"]
        offsets = array("q")
        for start, end in with_headers(ranges, headers):
            offsets += array("q", (start, end))
        digest = blake2b(offsets.tobytes(), digest_size=16).digest()
        return KeptSamples(offsets, len(ranges), len(rows), digest)

    def rows(self) -> tuple[list[LedgerRow], Sequence[Range]]:
        """Return all samples with their outcomes, and the global headers of the shard.

        Raises the same errors as ``kept``.
        """
        plan = plan_of(self.recipe)
        record = self._record()
        # Unless samples are compared, other scores and gathered data need not be read.
        calls = None if plan.dataset_calls else plan.scores
        samples = read_scored(self.scored, self.name, record, calls=calls)
        if self.resolved is not None:
            add_compared(plan, samples, self.resolved, self.name)
        # As ``filter`` decides.
        set_outcomes(plan, samples)
        quarantine_same_key_neighbours(samples.rows)
        return samples.rows, record.headers

    def check(self) -> None:
        """Raise LedgerError if there is no ledger, or if the shard has changed since."""
        path = self.scored.ledger(self.name)
        check_same_shard(read_metadata(path), self._record(), path)

    def _record(self) -> ShardRecord:
        return ShardRecord(0, self.url, self.name, "", input_identity(self.url))


class LedgerSubset:
    """The samples that a recipe keeps, by the ledgers of ``measure`` or ``filter``.

    Args:
        folder: the folder that ``measure`` or ``filter`` wrote.
        recipe: the predicate for samples to keep.

    Raises:
        LedgerError: the folder has no ledgers, or they lack a score of the predicate
            (MissingScore).
        ValueError: the recipe is invalid (ExpressionError).
    """

    def __init__(self, folder: str | os.PathLike[str], recipe: Recipe) -> None:
        self.folder = local_folder(folder)
        self._scored = scored = Layout(self.folder)
        self.recipe = with_ledger_options(canonical_recipe(recipe), scored)
        self._records = records_in_order(scored)
        if not self._records:
            raise no_ledgers(scored.folder)
        check_scores(plan_of(self.recipe), scored, [record.name for record in self._records])
        self._by_location = {
            canonical_name(Shard.from_text(record.url)): record for record in self._records
        }
        self._by_name: dict[str, list[ShardRecord]] = {}
        for record in self._records:
            self._by_name.setdefault(output_names([record.url])[0], []).append(record)

    @staticmethod
    def of(folder: str | os.PathLike[str], where: str) -> "LedgerSubset":
        """Return the samples of shards that a predicate keeps.

        As in ``filter``, samples with an unknown result are not kept.

        Raises StagedLedger if the ledgers are of samples that stages changed; ValueError for an
        empty predicate.
        """
        if not where.strip():
            raise ValueError("the predicate is empty: without one, all samples are kept")
        # Raises if it never holds.
        fixed_conditions(Recipe(where=where))
        subset = LedgerSubset(folder, Recipe(where=where))
        if subset.recipe.stages:
            raise StagedLedger(
                f"{subset.folder} was measured with stages, which change samples: only wdsflow filter can write those"
            )
        return subset

    @property
    def where(self) -> str:
        """The predicate, in its canonical form."""
        return self.recipe.where

    @property
    def compares(self) -> bool:
        """Whether the predicate compares the samples of all shards."""
        return bool(plan_of(self.recipe).dataset_calls)

    def shard(self, url: Shard) -> ShardLedger:
        """Return the ledger of a shard: that of its path or url, otherwise that of its name.

        Raises LedgerError.
        """
        return ShardLedger(url, self._record(url).name, self._scored, self.recipe)

    def shards(self, urls: Sequence[Shard]) -> list[ShardLedger]:
        """Return the ledgers of shards.

        A predicate that compares samples compares those of these shards, in this order.

        Raises LedgerError, SourceError.
        """
        if not self.compares:
            return [self.shard(url) for url in urls]
        with TemporaryDirectory(prefix="wdsflow-") as scratch:
            resolved = self._compare(urls, Path(scratch))
            shards = [replace(self.shard(url), resolved=resolved) for url in urls]
            return [replace(shard, resolved=None, decided=shard.kept()) for shard in shards]

    def _compare(self, urls: Sequence[Shard], folder: Path) -> Layout:
        """Compute the scores that compare the samples of shards, in this order, in an empty folder.

        Raises LedgerError if the ledger of a shard is missing or of another shard, SourceError.
        """
        layout = Layout(folder)
        shards = [self.shard(url) for url in dict.fromkeys(urls)]
        # Ledger -> shard.
        urls_of: dict[str, Shard] = {}
        for shard in shards:
            other = urls_of.setdefault(shard.name, shard.url)
            if other != shard.url:
                raise LedgerError(
                    f"{other} and {shard.url} have one ledger, and {self.where} compares samples: name each shard once"
                )
            # Before its values are compared with others.
            shard.check()
        for path in (layout.spool, layout.resolved_folder):
            path.mkdir(parents=True, exist_ok=True)
        names = [(number, shard.name) for number, shard in enumerate(shards)]
        compare_samples(plan_of(self.recipe), names, self._scored, layout)
        return layout

    def samples(self, urls: Sequence[Shard]) -> int:
        """Return the number of samples of shards, by their ledgers. Raises LedgerError."""
        return sum(self._record(url).samples for url in urls)

    def _record(self, url: Shard) -> ShardRecord:
        """Return the record of a shard: that of its path or url, otherwise that of its name.

        Raises UnknownShard.
        """
        record = self._by_location.get(canonical_name(url))
        if record is not None:
            return record
        candidates: list[ShardRecord] = []
        if not url.is_pipe:
            candidates = self._by_name.get(output_names([url])[0], [])
        if len(candidates) > 1:
            candidates = _same_contents(candidates, url)
        if not candidates:
            raise UnknownShard(f"{self.folder} has no ledger of {url}")
        return candidates[0]


def _same_contents(records: list[ShardRecord], url: Shard) -> list[ShardRecord]:
    """Return the records of shards with the same contents as a shard.

    All records if there are none, or if the shard cannot be read.
    """
    try:
        pieces = input_identity(url).get("pieces")
    except SourceError:
        return records
    return [record for record in records if record.input.get("pieces") == pieces] or records
