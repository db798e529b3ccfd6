"""What a recipe needs: its scores, their samples, and what its results depend on."""

import json
import math
from collections.abc import Collection, Mapping
from functools import cached_property, lru_cache

from wdsflow.expressions.expression import Term
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.steps import ScoreStep, steps_of, terms_by_cost
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.predicates.catalog import RankedNumber, parse, parse_score, ranked_number
from wdsflow.filtering.predicates.sample_facts import RankPercent, score_of
from wdsflow.filtering.recipe.recipe import CODE, Recipe, canonical_json, shrinker_of
from wdsflow.filtering.recipe.recipe_stages import stage_identities
from wdsflow.memory.sizes import parse_size
from wdsflow.stages.scores.base import DatasetScore, Score, versions_of
from wdsflow.stages.scores.model.model import Model
from wdsflow.stages.scores.model.model_score import ModelScore
from wdsflow.stages.scores.sample_view import ViewOptions
from wdsflow.stages.scores.score_catalog import all_scores

from .score_values import is_builtin


class FilterPlan:
    """A recipe, ready to run. Raises ExpressionError for an invalid predicate or score.

    Attributes:
        recipe: the recipe.
        expression: its predicate; None if it keeps all samples.
        terms: those of the predicate, in the order in which a false one is named.
        steps: the scores of the predicate, in the order in which they are computed.
        scores: all scores, with those from which ranks are computed.
        kinds: the type of each score: "number", "boolean" or "text".
        ranks: the scores that are ranks, with the number by which they rank.
        dataset_calls: the scores that compare samples.
        compared_among_all: those of them that compare all samples, in order.
        compared_among_kept: those that compare the samples that all other terms keep. For these
            scores, the others are ordinary terms.
        gathered_calls: the scores that compare samples by data that is gathered from each.
        model_calls: the scores that need a model.
        direct_calls: the scores that need nothing but the sample.
        requested_calls: the scores that are computed for all samples, whatever the predicate says.
        ranked_calls: the scores that are computed for samples that no other term drops.
        shrinker: makes the images of kept samples smaller; None if they keep their size.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        # Report an invalid size before the first sample.
        parse_size(recipe.image_memory)
        self.shrinker = shrinker_of(recipe)
        names = all_scores()
        self.expression = parse(recipe.where, names) if recipe.where.strip() else None
        requested = [parse_score(text, names) for text in recipe.scores]
        predicate_calls = self.expression.scores if self.expression is not None else ()
        self.scores: dict[ScoreCall, Score] = {}
        self._add_scores([*predicate_calls, *requested])
        self.ranks: dict[ScoreCall, RankedNumber] = {}
        for call, score in self.scores.items():
            if isinstance(score, RankPercent):
                self.ranks[call] = ranked_number(score, names)
        ranked: list[ScoreCall] = []
        for call, number in self.ranks.items():
            self._add_scores(number.calls)
            is_for_all = self.scores[call].settings()["among"] == "all" or call in requested
            (requested if is_for_all else ranked).extend(number.calls)
        self.ranked_calls = tuple(dict.fromkeys(ranked))
        for score in self.scores.values():
            score.check_installed()
            score.check_files()
        self._group_scores()
        requested = [call for call in requested if call not in self.dataset_calls]
        self.requested_calls = tuple(dict.fromkeys(requested))
        self.terms: tuple[Term, ...] = ()
        self.steps: list[ScoreStep] = []
        if self.expression is not None:
            self.terms = terms_by_cost(self.expression)
            self.steps = steps_of(self.expression, self.compared_among_kept)

    def _add_scores(self, calls: Collection[ScoreCall]) -> None:
        for call in calls:
            if call not in self.scores:
                self.scores[call] = score_of(call, self.recipe.precision)

    def _group_scores(self) -> None:
        """Group the scores by what they need."""
        dataset_calls: list[ScoreCall] = []
        among_all: list[ScoreCall] = []
        among_kept: list[ScoreCall] = []
        model_calls: list[ScoreCall] = []
        direct_calls: list[ScoreCall] = []
        for call, score in self.scores.items():
            if isinstance(score, DatasetScore):
                dataset_calls.append(call)
                is_among_kept = getattr(score, "among", "") == "kept"
                (among_kept if is_among_kept else among_all).append(call)
            if isinstance(score, ModelScore):
                model_calls.append(call)
            if not isinstance(score, (DatasetScore, ModelScore)):
                direct_calls.append(call)
        self.kinds: Mapping[ScoreCall, str] = {
            call: score.kind for call, score in self.scores.items()
        }
        self.dataset_calls = tuple(dataset_calls)
        self.compared_among_all = tuple(among_all)
        self.compared_among_kept = tuple(among_kept)
        self.gathered_calls = tuple(call for call in dataset_calls if call not in self.ranks)
        self.model_calls = frozenset(model_calls)
        self.direct_calls = frozenset(direct_calls)

    def identities(self) -> dict[str, object]:
        """Return the values that determine the outcome in addition to recipe and shards."""
        options = ViewOptions(images=self.recipe.image, captions=self.recipe.caption)
        identities: dict[str, object] = {
            "code": CODE,
            "view": options.identity(),
            "stages": stage_identities(self.recipe.stages),
            "scores": {str(call): score.identity() for call, score in self.scores.items()},
            "order": [str(term) for term in self.terms],
        }
        if self.shrinker is not None:
            identities["resize"] = versions_of("pillow", "simplejpeg")
        return identities

    @cached_property
    def score_identities(self) -> object:
        """The identities of the scores, as JSON."""
        return json.loads(canonical_json(self.identities()["scores"]))

    @property
    def models(self) -> tuple[Model, ...]:
        """The models of the scores."""
        return self.models_of(self.scores)

    def models_of(self, calls: Collection[ScoreCall]) -> tuple[Model, ...]:
        """Return the models of some scores, each once."""
        models: dict[Model, None] = {}
        for call, score in self.scores.items():
            if call in calls and isinstance(score, ModelScore):
                models |= dict.fromkeys(score.models())
        return tuple(models)

    @property
    def gpus(self) -> float:
        """GPUs that a worker needs for all scores by models: a share of one, or several."""
        total = sum(score.gpus for score in self.scores.values())
        return total if total <= 1 else math.ceil(total)

    @cached_property
    def last_pixel_call(self) -> ScoreCall | None:
        """The score of the predicate after which no decoded image is needed.

        None if there is none, or if images stay needed.
        """
        by_pixels = [call for call, score in self.scores.items() if score.tier == "pixels"]
        is_needed_later = self.model_calls or self.shrinker is not None
        if len(by_pixels) != 1 or is_needed_later:
            return None
        call = by_pixels[0]
        is_of_predicate = any(call in step.scores for step in self.steps)
        return call if is_of_predicate else None

    @cached_property
    def holds_images(self) -> bool:
        """Whether decoded images are held until all samples of a window are decided.

        The number of images in a window is bounded then.
        """
        if self.model_calls:
            return True
        decides_by_pixels = any(step.tier == "pixels" for step in self.steps)
        return decides_by_pixels and self.last_pixel_call is None

    @property
    def computes_extra_scores(self) -> bool:
        """Whether more is computed than the predicate needs."""
        is_requested = self.requested_calls or self.ranked_calls or self.gathered_calls
        return bool(is_requested) or self.recipe.hash_images

    def reads_contents(self, stored: Collection[ScoreCall] = ()) -> bool:
        """Return whether all bytes of members are read.

        They are read for hashes, or for scores that are not ``stored``.
        """
        if self.recipe.hash_images:
            return True
        for call, score in self.scores.items():
            if call in stored:
                continue
            if score.tier in {"pixels", "model"}:
                return True
            if call in self.gathered_calls and score.tier != "header":
                return True
        return False

    def is_safe(self, *, scores: bool) -> bool:
        """Return whether no sample can end the process.

        Then no image is decoded, and only code of wdsflow sees samples.

        ``scores``: whether scores are computed, not taken from ledgers.
        """
        decodes = self.shrinker is not None or (scores and self.reads_contents())
        return not decodes and all(map(is_builtin, self.scores.values()))

    def is_excluded(self, row: LedgerRow) -> bool:
        """Return whether a sample is dropped or quarantined, whatever comparisons say of it."""
        judgement = row.judgement
        if judgement is None or judgement.keep:
            return False
        return judgement.keep is False or self.recipe.unknown != "keep"

    def next_model_calls(self, table: SampleTable, row: LedgerRow) -> list[ScoreCall]:
        """Return the scores by models that a sample needs next."""
        if not self.model_calls or row.trouble:
            return []
        is_excluded = self.is_excluded(row)
        calls = [call for call in table.needed_by(row) if call not in self.gathered_calls]
        if self.model_calls.isdisjoint(calls) and not is_excluded:
            calls += self.ranked_calls
        calls += self.requested_calls
        for call in self.gathered_calls:
            if not (is_excluded and call in self.compared_among_kept):
                calls.append(call)
        by_model = [call for call in dict.fromkeys(calls) if call in self.model_calls]
        return [call for call in by_model if not table.has_value(row, call)]

    def lacks_values(self, table: SampleTable, row: LedgerRow) -> bool:
        """Return whether values of a sample have to be computed.

        The predicate must have been evaluated as far as possible.
        """
        if row.trouble:
            return False
        for call in [*self.requested_calls, *table.needed_by(row)]:
            if call in self.direct_calls and row.number not in table.columns[call]:
                return True
        return bool(self.next_model_calls(table, row)) or self.lacks_digest(row)

    def lacks_digest(self, row: LedgerRow) -> bool:
        """Return whether the images of a sample have to be hashed."""
        return self.recipe.hash_images and row.digest is None


@lru_cache(maxsize=4)
def plan_of(recipe: Recipe) -> FilterPlan:
    """Return the plan of a recipe; cached per process."""
    return FilterPlan(recipe)
