"""Which samples of shards a predicate keeps, by the scores in ledgers: what ``cut`` copies, as ranges of the shards."""

import os
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.manifest import read_manifests
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.jsonl.jsonl_names import names_of
from wdsflow.filtering.ledger.ledger import read_ledger
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, MissingScore, calls_of, read_about, same_shard
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.filtering.recipe.canonical_recipe import canonical_recipe
from wdsflow.filtering.recipe.recipe import Recipe, recorded_recipe
from wdsflow.filtering.shard.same_keys import part_twins
from wdsflow.shards.compact import compact
from wdsflow.shards.samples.copy_ranges import with_headers
from wdsflow.shards.samples.tar_sample import Range
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import SourceError, local_file, local_folder
from wdsflow.text.shell import quote, quote_path

from .compare_samples import add_resolved, gathers_like, resolve
from .program import Program, program_of


class StagedLedger(LedgerError):
    """Ledgers of samples that stages changed: the shards hold others."""


class UnknownShard(LedgerError):
    """A shard that was not scored."""


class KeptSamples(NamedTuple):
    """What is kept of a shard."""

    places: Sequence[int]  # first byte, byte after the last, of each range: samples, and global headers before them
    kept: int  # samples
    samples: int  # of the shard
    digest: bytes  # of the places

    @property
    def ranges(self) -> list[Range]:
        """The ranges of the (uncompressed) tar, sorted; neighbours are joined."""
        return list(zip(self.places[::2], self.places[1::2], strict=True))


@dataclass(frozen=True)
class ShardLedger:
    """A shard, its ledger, and what is kept. ``known``: the result, where it takes the ledgers of all shards."""

    url: str
    name: str
    scored: Layout
    recipe: Recipe
    known: KeptSamples | None = None

    @property
    def path(self) -> Path:
        """The ledger."""
        return self.scored.ledger(self.name)

    def kept(self) -> KeptSamples:
        """Return which samples are kept. Reads the ledger, and a few pieces of the shard to compare it with.

        Raises LedgerError if there is no ledger, if it lacks a score that decides (MissingScore), or if the shard has
        changed since; SourceError if the shard cannot be read.
        """
        return self.known or _kept(*self.rows())

    def rows(self, *, decided: bool = True) -> tuple[list[Row], Sequence[Range]]:
        """Return all samples with their outcomes, and the global headers of the shard. Raises as ``kept``."""
        program = program_of(self.recipe)
        rows, about = read_ledger(self.path, calls=None if program.dataset_calls else program.scores)
        same_shard(about, ShardRecord(0, self.url, self.name, "", input_identity(self.url)), self.path)
        if decided:
            decide(program, rows)
        return rows, [(start, end) for start, end in about["headers"]]


class LedgerSubset:
    """The samples that a predicate keeps. A sample for which it is unknown is not kept, as ``cut`` quarantines it.

    Args:
        folder: the folder that ``score`` or ``filter`` wrote.
        where: the predicate.

    Raises:
        LedgerError: the folder has no ledgers, they are of samples that stages changed, or they lack a score.
        ValueError: the predicate is invalid (WhereError).
    """

    def __init__(self, folder: str | os.PathLike[str], where: str) -> None:
        self.folder = local_folder(folder)
        self.recipe = canonical_recipe(Recipe(where=where))
        if not self.recipe.where:
            raise ValueError("the predicate is empty: without one, all samples are kept")
        self._scored = scored = Layout(self.folder)
        self._records = list(read_manifests(scored.manifests()).values()) if scored.inside.is_dir() else []
        if not self._records:
            raise LedgerError(f"{self.folder} has no ledgers: give the folder that filter or score wrote")
        if recorded_recipe(scored.run_file).get("stages"):
            raise StagedLedger(
                f"{self.folder} was scored with stages, which change samples: only wdsflow cut can write those"
            )
        check_scores(program_of(self.recipe), scored, [record.name for record in self._records])
        self._by_place = {_place(record.url): record for record in self._records}
        self._by_name: dict[str, list[ShardRecord]] = {}
        for record in self._records:
            self._by_name.setdefault(names_of([record.url])[0], []).append(record)

    @property
    def where(self) -> str:
        """The predicate, in its canonical form."""
        return self.recipe.where

    @property
    def compares(self) -> bool:
        """Whether the predicate compares the samples of all shards."""
        return bool(program_of(self.recipe).dataset_calls)

    def shard(self, url: str) -> ShardLedger:
        """Return the ledger of a shard: of its path or url, otherwise of its name. Raises LedgerError."""
        return ShardLedger(url, self._record(url).name, self._scored, self.recipe)

    def shards(self, urls: Sequence[str]) -> list[ShardLedger]:
        """Return the ledgers of shards. A predicate that compares samples compares those of these shards, in this order.

        Raises LedgerError, SourceError.
        """
        found = [self.shard(url) for url in urls]
        return _compared(found) if self.compares and found else found

    def samples(self, urls: Sequence[str]) -> int:
        """Return the number of samples of shards, by their ledgers. Raises LedgerError."""
        return sum(self._record(url).samples for url in urls)

    def _record(self, url: str) -> ShardRecord:
        found = self._by_place.get(_place(url))
        if found is not None:
            return found
        alike = [] if url.startswith("pipe:") else self._by_name.get(names_of([url])[0], [])
        if len(alike) > 1:
            with suppress(SourceError):
                now = input_identity(url)
                alike = [each for each in alike if each.input.get("pieces") == now.get("pieces")] or alike
        if not alike:
            raise UnknownShard(f"{self.folder} has no ledger of {url}")
        return alike[0]


def decide(program: Program, rows: Sequence[Row]) -> None:
    """Set the outcomes of a shard's samples as ``cut`` does. Raises MissingScore."""
    for row in rows:
        program.decide(row)
    part_twins(rows)


def check_scores(program: Program, scored: Layout, names: Sequence[str]) -> None:
    """Raise MissingScore if the first ledger has no column for a score of the predicate."""
    path = next((path for name in names if (path := scored.ledger(name)).is_file()), None)
    there = calls_of(read_about(path)) if path is not None else {}
    for call in program.scores if path is not None else ():
        if (
            call not in there
            and call not in program.ranks
            and not any(gathers_like(program, call, other) for other in there)
        ):
            raise MissingScore(str(call), f"{scored.folder} has no {call}, which was not computed there")


def score_command(urls: Sequence[str], folder: str | os.PathLike[str], where: str) -> tuple[str, Path]:
    """Return the command that computes the scores of a predicate, as a ledger was made, and the new folder that it writes.

    Raises ValueError if the predicate is invalid.
    """
    program = program_of(canonical_recipe(Recipe(where=where)))
    calls = ",".join(str(call) for call in program.scores if call not in program.ranks)
    run_file, new = Layout(Path(folder)).run_file, _unused(Path(folder))
    words = [*map(quote_path, compact(list(urls))), "-o", quote_path(str(new)), "--scores", quote(calls)]
    words += ["--recipe", quote_path(str(run_file))] if run_file.is_file() else []
    return " ".join(["wdsflow score", *words]), new


def _compared(shards: Sequence[ShardLedger]) -> list[ShardLedger]:
    """Decide a predicate that compares samples: its scores are of all shards together."""
    program = program_of(shards[0].recipe)
    found: list[ShardLedger] = []
    with TemporaryDirectory(prefix="wdsflow-") as scratch:
        layout = Layout(Path(scratch))
        for folder in (layout.spool, layout.inside / "resolved"):
            folder.mkdir(parents=True)
        for shard in shards:
            shard.rows(decided=False)  # raises if it has changed, before its values are compared with others
        resolve(program, [(number, shard.name) for number, shard in enumerate(shards)], shards[0].scored, layout)
        for shard in shards:
            rows, headers = shard.rows(decided=False)
            add_resolved(program, rows, layout, shard.name)
            decide(program, rows)
            found.append(replace(shard, known=_kept(rows, headers)))
    return found


def _kept(rows: Sequence[Row], headers: Sequence[Range]) -> KeptSamples:
    ranges = [(row.start, row.end) for row in rows if row.outcome == "kept"]
    places = array("q", (place for each in with_headers(ranges, headers) for place in each))
    digest = blake2b(places.tobytes(), digest_size=16).digest()
    return KeptSamples(places, len(ranges), len(rows), digest)


def _place(url: str) -> str:
    path = local_file(url)
    return url if path is None else os.path.realpath(path)


def _unused(folder: Path) -> Path:
    """Return a folder that does not exist, named like another one, next to it if that can be written to."""
    folder = folder if folder.name else Path("scores")
    parent = folder.parent if os.access(folder.absolute().parent, os.W_OK) else Path()
    names = (f"{folder.name}-{number}" if number > 1 else folder.name for number in count(1))
    return next(parent / name for name in names if not os.path.lexists(parent / name))
