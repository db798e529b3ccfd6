"""The samples of shards that a recipe keeps, by the scores in ledgers: like ``filter``, without output."""

import os
from array import array
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.ledger import read_scored
from wdsflow.filtering.ledger.ledger_metadata import (
    LedgerError,
    MissingScore,
    SettledByLedger,
    calls_of,
    no_ledgers,
    read_about,
    same_shard,
)
from wdsflow.filtering.ledger.sample_table import Row, SampleTable, part_twins
from wdsflow.filtering.predicates.catalog import gathers_like, with_columns
from wdsflow.filtering.recipe.recipe import (
    Recipe,
    canonical_recipe,
    fixed_conditions,
    recorded_recipe,
    recorded_run,
)
from wdsflow.filtering.recipe.recipe_stages import read_stages
from wdsflow.filtering.run_folder import Layout, ShardRecord, records_in_order
from wdsflow.pieces.pieces import with_headers
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.source.base import Range, SourceError, local_folder, place_of
from wdsflow.shards.urls import expand
from wdsflow.shards.written_names import compact
from wdsflow.text.shell import quote, quote_path

from .compare_samples import compare_samples
from .compared_values import add_compared
from .decider import set_outcomes
from .plan import FilterPlan, plan_of

_OF_SCORES = ("image", "caption", "image_memory", "precision")


class StagedLedger(LedgerError):
    """Ledgers of samples that stages changed: those in the shards differ."""


class UnknownShard(LedgerError):
    """A shard that was not scored."""


class KeptSamples(NamedTuple):
    """The kept samples of a shard."""

    # First byte, byte after the last, of each range: samples, and global headers before them.
    places: Sequence[int]
    # Samples.
    kept: int
    # Of the shard.
    samples: int
    # Of the places.
    digest: bytes

    @property
    def ranges(self) -> list[Range]:
        """The ranges of the (uncompressed) tar, sorted; neighbours are joined."""
        return list(zip(self.places[::2], self.places[1::2], strict=True))


@dataclass(frozen=True)
class ShardLedger:
    """A shard and its ledger.

    ``resolved``: the folder with the values of scores that compare samples. ``known``: the kept
    samples, if decided.
    """

    url: Shard
    name: str
    scored: Layout
    recipe: Recipe
    resolved: Layout | None = None
    known: KeptSamples | None = None

    def kept(self) -> KeptSamples:
        """Return the kept samples. Reads the ledger, and a few pieces of the shard to compare it with.

        Raises LedgerError if there is no ledger, if it lacks a required score (MissingScore), or if
        the shard has changed since; SourceError if the shard cannot be read.
        """
        if self.known is not None:
            return self.known
        rows, headers = self.rows()
        ranges = [(row.start, row.end) for row in rows if row.outcome == "kept"]
        places = array("q", (place for each in with_headers(ranges, headers) for place in each))
        return KeptSamples(
            places, len(ranges), len(rows), blake2b(places.tobytes(), digest_size=16).digest()
        )

    def rows(self) -> tuple[list[Row], Sequence[Range]]:
        """Return all samples with their outcomes, and the global headers of the shard. Raises as ``kept``."""
        plan, record = plan_of(self.recipe), self._record()
        return self._rows(record, None if plan.dataset_calls else plan.scores), record.headers

    def check(self) -> None:
        """Raise LedgerError if there is no ledger, or if the shard has changed since."""
        path = self.scored.ledger(self.name)
        same_shard(read_about(path), self._record(), path)

    def _record(self) -> ShardRecord:
        return ShardRecord(0, self.url, self.name, "", input_identity(self.url))

    def _rows(self, record: ShardRecord, calls: Collection[ScoreCall] | None = None) -> list[Row]:
        plan = plan_of(self.recipe)
        samples = read_scored(self.scored, self.name, record, calls=calls)
        if self.resolved is not None:
            add_compared(plan, samples, self.resolved, self.name)
        decide(plan, samples)
        return samples.rows


class LedgerSubset:
    """The samples that a recipe keeps, by the ledgers of ``measure`` or ``filter``.

    Args:
        folder: the folder that ``measure`` or ``filter`` wrote.
        recipe: the predicate for samples to keep.

    Raises:
        LedgerError: the folder has no ledgers, or they lack a score of the predicate (MissingScore).
        ValueError: the recipe is invalid (ExpressionError).
    """

    def __init__(self, folder: str | os.PathLike[str], recipe: Recipe) -> None:
        self.folder = local_folder(folder)
        self._scored = scored = Layout(self.folder)
        self.recipe = as_scored(canonical_recipe(recipe), scored)
        self._records = records_in_order(scored)
        if not self._records:
            raise no_ledgers(scored.folder)
        check_scores(plan_of(self.recipe), scored, [record.name for record in self._records])
        self._by_place = {place_of(Shard.stored(record.url)): record for record in self._records}
        self._by_name: dict[str, list[ShardRecord]] = {}
        for record in self._records:
            self._by_name.setdefault(output_names([record.url])[0], []).append(record)

    @staticmethod
    def of(folder: str | os.PathLike[str], where: str) -> "LedgerSubset":
        """Return the samples of shards that a predicate keeps. As in ``filter``, unknown ones are not kept.

        Raises StagedLedger if the ledgers are of samples that stages changed; ValueError for an
        empty predicate.
        """
        if not where.strip():
            raise ValueError("the predicate is empty: without one, all samples are kept")
        # Raises if it never holds.
        fixed_conditions(Recipe(where=where))
        found = LedgerSubset(folder, Recipe(where=where))
        if found.recipe.stages:
            raise StagedLedger(
                f"{found.folder} was measured with stages, which change samples: only wdsflow filter can write those"
            )
        return found

    @property
    def where(self) -> str:
        """The predicate, in its canonical form."""
        return self.recipe.where

    @property
    def compares(self) -> bool:
        """Whether the predicate compares the samples of all shards."""
        return bool(plan_of(self.recipe).dataset_calls)

    def shard(self, url: Shard) -> ShardLedger:
        """Return the ledger of a shard, found by path or url, otherwise by name. Raises LedgerError."""
        return ShardLedger(url, self._record(url).name, self._scored, self.recipe)

    def shards(self, urls: Sequence[Shard]) -> list[ShardLedger]:
        """Return the ledgers of shards. A predicate that compares samples compares those of these shards, in this order.

        Raises LedgerError, SourceError.
        """
        if not self.compares:
            return [self.shard(url) for url in urls]
        with TemporaryDirectory(prefix="wdsflow-") as scratch:
            resolved = self._compare(urls, Path(scratch))
            shards = [replace(self.shard(url), resolved=resolved) for url in urls]
            return [replace(shard, resolved=None, known=shard.kept()) for shard in shards]

    def _compare(self, urls: Sequence[Shard], folder: Path) -> Layout:
        """Compute the scores that compare the samples of shards, in this order, in an empty folder.

        Raises LedgerError if the ledger of a shard is missing or of another shard, SourceError.
        """
        layout, shards = Layout(folder), [self.shard(url) for url in dict.fromkeys(urls)]
        # Ledger -> shard.
        urls_of: dict[str, Shard] = {}
        for shard in shards:
            if (other := urls_of.setdefault(shard.name, shard.url)) != shard.url:
                raise LedgerError(
                    f"{other} and {shard.url} have one ledger, and {self.where} compares samples: name each shard once"
                )
            # Before its values are compared with others.
            shard.check()
        for each in (layout.spool, layout.inside / "resolved"):
            each.mkdir(parents=True, exist_ok=True)
        names = [(number, shard.name) for number, shard in enumerate(shards)]
        compare_samples(plan_of(self.recipe), names, self._scored, layout)
        return layout

    def samples(self, urls: Sequence[Shard]) -> int:
        """Return the number of samples of shards, by their ledgers. Raises LedgerError."""
        return sum(self._record(url).samples for url in urls)

    def _record(self, url: Shard) -> ShardRecord:
        found = self._by_place.get(place_of(url))
        if found is not None:
            return found
        alike = [] if url.is_pipe else self._by_name.get(output_names([url])[0], [])
        if len(alike) > 1:
            with suppress(SourceError):
                now = input_identity(url)
                alike = [
                    each for each in alike if each.input.get("pieces") == now.get("pieces")
                ] or alike
        if not alike:
            raise UnknownShard(f"{self.folder} has no ledger of {url}")
        return alike[0]


def decide(plan: FilterPlan, samples: SampleTable) -> None:
    """Set the outcomes of a shard's samples as ``filter`` does. Raises MissingScore."""
    set_outcomes(plan, samples)
    part_twins(samples.rows)


def check_scores(plan: FilterPlan, scored: Layout, names: Sequence[str]) -> None:
    """Raise MissingScore if the first ledger has no column for a score of the predicate."""
    for call in lacking_columns(plan, scored, names):
        raise MissingScore(
            str(call), f"{scored.folder} has no {call}, which was not computed there"
        )


def lacking_columns(plan: FilterPlan, scored: Layout, names: Sequence[str]) -> list[ScoreCall]:
    """Return the scores of a recipe for which the first ledger has no column."""
    there = _calls_there(scored, names)
    return _lacking(plan, there) if there is not None else []


def is_complete(scored: Layout, recipe: Recipe) -> bool:
    """Return whether ledgers have the scores of a recipe for all samples, as those of ``measure``."""
    run = recorded_run(scored.run_file)
    asked = recorded_recipe(scored.run_file).get("scores", [])
    every = asked if isinstance(asked, list) else []
    return run.get("kind") == "measure" or all(
        str(call) in every for call in plan_of(recipe).scores
    )


def stored_scores(recipe: Recipe, scored: Layout) -> frozenset[ScoreCall]:
    """Return the scores that a run takes from ledgers; ``recipe`` is what ``as_scored`` returned."""
    plan = plan_of(recipe)
    lacks = {
        *lacking_columns(plan, scored, [record.name for record in records_in_order(scored)]),
        *plan.ranks,
    }
    if not is_complete(scored, recipe):
        # A filter ran its models only for samples that needed them.
        lacks |= plan.model_calls
    return frozenset(call for call in plan.scores if call not in lacks)


def _lacking(plan: FilterPlan, there: Collection[ScoreCall]) -> list[ScoreCall]:
    """Return the scores of a predicate that have no column, and no data to compare samples."""
    return [
        call
        for call in plan.scores
        if call not in there
        and call not in plan.ranks
        and not any(gathers_like(call, other) for other in there)
    ]


def _calls_there(scored: Layout, names: Iterable[str]) -> dict[ScoreCall, str] | None:
    """Return the scores of the first ledger, None if there is none."""
    path = next((path for name in names if (path := scored.ledger(name)).is_file()), None)
    if path is None:
        return None
    calls = calls_of(read_about(path))
    run = recorded_run(scored.run_file)
    computed = run.get("scores")
    if run.get("kind") != "measure" or not isinstance(computed, dict):
        return calls
    # This ledger may have more scores than the others, of an earlier run that did not finish.
    return {call: kind for call, kind in calls.items() if str(call) in computed}


def as_scored(recipe: Recipe, scored: Layout) -> Recipe:
    """Return the recipe with the stages, fields and precision of the scores, and their full names.

    Raises LedgerError; ExpressionError if the name of a score matches several columns.
    """
    if not scored.has_ledgers:
        raise no_ledgers(scored.folder)
    found_recipe = recorded_recipe(scored.run_file)
    if not found_recipe:
        raise LedgerError(
            f"{scored.run_file} does not record how {scored.folder} was measured: measure again"
        )
    stages = read_stages(found_recipe.get("stages", []))
    if recipe.stages and recipe.stages != stages:
        raise LedgerError(
            f"{scored.folder} was measured with other stages than those of the recipe"
        )
    given = {
        name: found_recipe[name] for name in _OF_SCORES if isinstance(found_recipe.get(name), str)
    }
    for name, value in given.items():
        asked = getattr(recipe, name)
        if asked not in {value, getattr(Recipe, name), "auto"}:
            option = f"--{name.replace('_', '-')}"
            raise SettledByLedger(
                f"{scored.folder} was measured with {option} {quote(value)}: leave out {option} {quote(asked)}",
                name,
            )
    there = _calls_there(scored, (record.name for record in records_in_order(scored))) or {}
    return replace(recipe, stages=stages, where=with_columns(recipe.where, there), **given)


def measure_command(
    urls: Sequence[str], folder: str | os.PathLike[str], where: str
) -> tuple[str, Path]:
    """Return the command that computes the scores of a predicate, as a ledger was made, and the new folder that it writes.

    Raises ValueError if the predicate is invalid.
    """
    recipe = canonical_recipe(Recipe(where=where))
    if (added := scores_to_add(urls, Path(folder), recipe)) is not None:
        run_file, new, (urls, calls) = None, Path(folder), added
    else:
        run_file, new, calls = (
            Layout(Path(folder)).run_file,
            _unused(Path(folder)),
            needed_scores(recipe),
        )
    words = [
        *map(quote_path, compact(list(urls))),
        "-o",
        quote_path(str(new)),
        "--scores",
        quote(calls),
    ]
    words += (
        ["--recipe", quote_path(str(run_file))]
        if run_file is not None and run_file.is_file()
        else []
    )
    return " ".join(["wdsflow measure", *words]), new


def needed_scores(recipe: Recipe) -> str:
    """Return the scores that a predicate needs, for --scores."""
    plan = plan_of(recipe)
    return ",".join(str(call) for call in plan.scores if call not in plan.ranks)


def scores_to_add(
    urls: Sequence[str], folder: Path, recipe: Recipe
) -> tuple[list[str], str] | None:
    """Return the shards of a run of ``measure``, and the scores that its ledgers lack for a predicate.

    None if no command can add scores to these ledgers: they are of a filter, or of other shards.
    """
    layout = Layout(folder)
    run = recorded_run(layout.run_file)
    known = run.get("urls")
    if run.get("kind") != "measure" or not isinstance(known, list):
        return None
    measured = list(map(Shard.stored, known))
    if any(shard.is_pipe for shard in measured):
        return None
    given = expand(urls, allow_pipe=True).urls
    if not set(map(place_of, given)) <= set(map(place_of, measured)):
        return None
    try:
        plan = plan_of(as_scored(recipe, layout))
    except LedgerError:
        return None
    there = _calls_there(layout, (record.name for record in records_in_order(layout))) or {}
    lacks = [str(call) for call in _lacking(plan, there)]
    return list(urls) if given == measured else [*measured], ",".join(lacks) or needed_scores(
        plan.recipe
    )


def _unused(folder: Path) -> Path:
    """Return a new folder name derived from another folder, next to it if its parent is writable."""
    folder = folder if folder.name else Path("scored")
    parent = folder.parent if os.access(folder.absolute().parent, os.W_OK) else Path()
    names = (f"{folder.name}-{number}" if number > 1 else folder.name for number in count(1))
    return next(parent / name for name in names if not os.path.lexists(parent / name))
