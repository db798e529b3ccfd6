"""A recipe, ready to run: scores, their order, and the outcome of each sample."""

import json
import math
import re
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeVar

from wdsflow.engines.peer import Mark
from wdsflow.expressions.evaluator import Evaluator
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.ledger_metadata import MissingScore, NotCompared
from wdsflow.filtering.ledger.sample_table import Row, SampleTable, in_utf8
from wdsflow.filtering.predicates.catalog import RankedNumber, parse, parse_score, ranked_number
from wdsflow.filtering.predicates.sample_facts import RankPercent, score_of
from wdsflow.filtering.predicates.values import Unknown, Value
from wdsflow.filtering.recipe.recipe import CODE, Recipe, canonical, shrinker_of
from wdsflow.filtering.recipe.recipe_stages import stage_identities
from wdsflow.filtering.samples import DROPPED, ShardView, way_of
from wdsflow.memory.batching.exceptions import text_of
from wdsflow.memory.sizes import parse_size
from wdsflow.shards.atomic import UNREADABLE
from wdsflow.shards.source.base import SourceError
from wdsflow.stages.scores.base import (
    DatasetScore,
    HeaderScore,
    PixelScore,
    Scalar,
    Score,
    ScoreError,
    Subject,
    TextScore,
    bare,
    versions_of,
)
from wdsflow.stages.scores.model.batch_score import BatchScore
from wdsflow.stages.scores.model.model import Model
from wdsflow.stages.scores.model.model_score import ModelScore
from wdsflow.stages.scores.model.returned_values import described, rows_of, scalar
from wdsflow.stages.scores.sample_view import View, ViewOptions
from wdsflow.stages.scores.score_catalog import SCORES, all_scores
from wdsflow.text.install import check_installed

from .decider import Decider
from .row_values import evaluate

V = TypeVar("V")
R = TypeVar("R")
W = TypeVar("W", bound=View)

# SystemExit: from libraries that behave like programs.
RAISED = Exception, SystemExit
# Characters.
_KEPT_IN_DETAIL = 500
# Address of an object in memory: it differs in each run.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def guarded(compute: Callable[[V], R], view: V) -> R | Unknown:
    """Return the result of ``compute``, or Unknown: a bad sample must not fail its shard. Raises OSError."""
    try:
        return compute(view)
    except RAISED as error:
        return failed(error)


def failed(error: BaseException) -> Unknown:
    """Return why a score could not be computed. Raises the error if it is the fault of the shard or the disk."""
    if isinstance(error, ScoreError):
        return Unknown(error.slug, without_addresses(error.detail))
    if isinstance(error, MemoryError):
        return Unknown("out-of-memory")
    if isinstance(error, SourceError) or (isinstance(error, OSError) and error.errno in UNREADABLE):
        raise error
    return Unknown(f"raised-{type(error).__name__}", without_addresses(text_of(error, sys.maxsize)))


def without_addresses(text: str) -> str:
    """Return the text of an error as it is kept: 500 characters, the same in each run."""
    return _ADDRESS.sub("", text)[:_KEPT_IN_DETAIL]


_COUNTED: dict[Subject, tuple[Subject, ...]] = {
    # Frames replace a missing image.
    "image": ("image", "video"),
    "video": ("video",),
    "caption": ("caption",),
    "sample": ("image", "video", "caption"),
}


def plain_value(score: Score, value: object, view: View | None) -> Value:
    """Return the value of a score for a sample as float, int, bool or str, or as a list of these with one for each item.

    Scalars and arrays of NumPy and PyTorch are accepted. Items are the images, videos or captions
    of ``view`` that the score uses. For wdsflow's own scores, and without a view, a list may have
    any length. Raises TypeError for anything else, ScoreError "not-finite" for NaN and infinities,
    OverflowError for a number that no float can hold.
    """
    method, rows = _method_of(score), rows_of(value)
    if rows is None:
        return _scalar(score, value, method)
    counts = set[int]() if view is None or is_ours(score) else _counts(score, view)
    if counts and len(rows) not in counts:
        raise TypeError(
            f"{method} returned {described(value)}: the sample needs {' or '.join(map(str, sorted(counts)))}"
        )
    return bare([_scalar(score, row, method) for row in rows])


def in_plain(score: Score, way: Callable[[W], Value]) -> Callable[[W], Value]:
    """Return ``way``, which computes a score, with plain values; wdsflow's own scores have them, except for texts."""
    if not is_ours(score):
        return lambda view: plain_value(score, way(view), view)
    if score.kind != "text":
        return way

    # A run from the ledger must use the same value as the first run.
    def in_ledger(view: W) -> Value:
        value = way(view)
        if isinstance(value, list):
            return [in_utf8(each) if isinstance(each, str) else each for each in value]
        return in_utf8(value) if isinstance(value, str) else value

    return in_ledger


def is_ours(score: Score) -> bool:
    """Return whether a score is wdsflow's own: its values need no check."""
    return SCORES.get(score.name, Score) is type(score) or type(score).__module__.startswith(
        "wdsflow."
    )


def _scalar(score: Score, value: object, method: str) -> Scalar:
    made = scalar(value, score.kind, method)
    return in_utf8(made) if isinstance(made, str) else made


def _method_of(score: Score) -> str:
    """Return the method that computes a custom score."""
    if isinstance(score, DatasetScore):
        return "resolve()"
    if isinstance(score, ModelScore):
        return "score()" if isinstance(score, BatchScore) else "value()"
    own = next(
        (base for base in (HeaderScore, PixelScore, TextScore) if isinstance(score, base)), None
    )
    return "of()" if own is not None and type(score).score is own.score else "score()"


def _counts(score: Score, view: View) -> set[int]:
    """Return the possible numbers of values of a score for a sample; empty if unknown."""
    ways = {"image": view.image_names, "video": view.video_names, "caption": view.captions}
    found = set[int]()
    for subject in _COUNTED[score.subject]:
        with suppress(ScoreError):
            found.add(len(ways[subject](getattr(score, subject, ""))))
    return found


class Seen(NamedTuple):
    """A sample that is being read."""

    row: Row
    view: ShardView


class Program:
    """Computes the scores of a recipe, and decides. Raises ExpressionError for an invalid predicate or score."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        # Report an invalid size before the first sample.
        parse_size(recipe.image_memory)
        self.shrinker = shrinker_of(recipe)
        names = all_scores()
        self.expression = parse(recipe.where, names) if recipe.where.strip() else None
        asked = [parse_score(text, names) for text in recipe.scores]
        wanted = self.expression.scores if self.expression else ()
        self.scores = {
            call: score_of(call, recipe.precision) for call in dict.fromkeys((*wanted, *asked))
        }
        # Ranks are computed from other scores: of all samples, or of those that the other terms
        # keep.
        self.ranks: dict[ScoreCall, RankedNumber] = {
            call: ranked_number(score, names)
            for call, score in self.scores.items()
            if isinstance(score, RankPercent)
        }
        ranked: list[ScoreCall] = []
        for call, number in self.ranks.items():
            self.scores |= {
                each: score_of(each, recipe.precision)
                for each in number.calls
                if each not in self.scores
            }
            if self.scores[call].settings()["among"] == "all" or call in asked:
                asked += number.calls
            else:
                ranked += number.calls
        # Computed only for samples that no other term drops.
        self._ranked = tuple(dict.fromkeys(ranked))
        for score in self.scores.values():
            check_installed(score.name, score.packages, score.needs)
            score.check_files()
        self.dataset_calls = tuple(
            call for call, score in self.scores.items() if isinstance(score, DatasetScore)
        )
        late = frozenset(self.dataset_calls)
        self.gathered_calls = tuple(call for call in self.dataset_calls if call not in self.ranks)
        # For these scores, the other scores are ordinary terms.
        self.kept_calls = frozenset(
            call for call in late if getattr(self.scores[call], "among", "") == "kept"
        )
        self.compared_among_all = [
            call for call in self.dataset_calls if call not in self.kept_calls
        ]
        self.compared_among_kept = [call for call in self.dataset_calls if call in self.kept_calls]
        self.model_calls = frozenset(
            call for call, score in self.scores.items() if isinstance(score, ModelScore)
        )
        later = late | self.model_calls
        self._ways = {
            call: in_plain(score, way_of(score))
            for call, score in self.scores.items()
            if call not in later
        }
        self.decider = Decider(self.expression, self.kept_calls) if self.expression else None
        self.terms = self.decider.terms if self.decider else ()
        self._others = self._without_kept()
        self._reads_captions = any(isinstance(self.scores[call], TextScore) for call in self._ways)
        self.kinds: dict[ScoreCall, str] = {call: score.kind for call, score in self.scores.items()}
        self._asked = tuple(call for call in asked if call not in late)
        # Than the predicate needs.
        self.asks_more = bool(
            self._asked or self._ranked or self.gathered_calls or recipe.hash_images
        )

    def _without_kept(self) -> Evaluator | None:
        """Return the evaluator of the terms without scores that compare kept samples; None if there is no such term."""
        if self.expression is None:
            return None
        others = tuple(term for term in self.terms if self.kept_calls.isdisjoint(term.scores))
        return Evaluator(replace(self.expression, terms=others)) if others else None

    def identities(self) -> dict[str, object]:
        """Return the values that determine the outcome in addition to recipe and shards."""
        options = ViewOptions(images=self.recipe.image, captions=self.recipe.caption)
        return {
            "code": CODE,
            "view": options.identity(),
            "stages": stage_identities(self.recipe.stages),
            "scores": {str(call): score.identity() for call, score in self.scores.items()},
            "order": [str(term) for term in self.terms],
            **({"resize": versions_of("pillow", "simplejpeg")} if self.shrinker else {}),
        }

    @cached_property
    def score_identities(self) -> object:
        """The identities of the scores, as JSON."""
        return json.loads(canonical(self.identities()["scores"]))

    def reads_contents(self, known: Collection[ScoreCall] = ()) -> bool:
        """Return whether whole members are read for the scores that are not known."""
        late = frozenset(self.gathered_calls)
        return self.recipe.hash_images or any(
            score.tier in {"pixels", "model"} or (call in late and score.tier != "header")
            for call, score in self.scores.items()
            if call not in known
        )

    def is_safe(self, *, scores: bool) -> bool:
        """Return whether no sample can end the process: no image is decoded, and only code of wdsflow sees samples.

        ``scores``: whether scores are computed, not taken from ledgers.
        """
        decodes = self.shrinker is not None or (scores and self.reads_contents())
        return not decodes and all(map(is_ours, self.scores.values()))

    @property
    def gpus(self) -> float:
        """GPUs that a worker needs for all model scores: a share of one, or whole ones."""
        total = sum(score.gpus for score in self.scores.values())
        return total if total <= 1 else math.ceil(total)

    def start(self, samples: SampleTable, seen: "Sequence[Seen]", mark: Mark) -> None:
        """Compute the scores that are needed first, while the bytes of the samples are in memory."""
        if self.decider is not None:
            for call in self.decider.first_calls:
                self._compute(samples, call, seen, mark)
        if self._reads_captions:
            # Later they would have to be read again.
            for _, view in seen:
                view.plain_caption(in_memory=True)

    def advance(self, samples: SampleTable, seen: "Sequence[Seen]", mark: Mark) -> None:
        """Decide samples as far as possible without a model: cheap scores first, and none after the decision."""
        if self.decider is None:
            return
        views = {row.number: view for row, view in seen}

        def compute(call: ScoreCall, rows: Sequence[Row]) -> None:
            self._compute(samples, call, [Seen(row, views[row.number]) for row in rows], mark)
            mark.set(-1)

        self.decider.advance(samples, [row for row, _ in seen], compute)

    def needs(self, samples: SampleTable, row: Row) -> bool:
        """Return whether a sample lacks scores that are wanted of it, after ``advance``."""
        if row.trouble:
            return False
        calls = [*self._asked, *self._needed(samples, row)]
        if any(call in self._ways and row.number not in samples.columns[call] for call in calls):
            return True
        return bool(self.wanted(samples, row)) or self._lacks_digest(row)

    def _lacks_digest(self, row: Row) -> bool:
        return self.recipe.hash_images and row.digest is None

    def add_asked(self, samples: SampleTable, row: Row, view: ShardView) -> None:
        """Compute what is wanted besides the predicate: other scores, and what comparisons need."""
        is_out = self._is_out(row)
        if not is_out:
            self._complete(samples, row, view, self._ranked)
        self._complete(samples, row, view, self._asked)
        for call in self.gathered_calls:
            if call in self.model_calls or samples.has(row, call):
                continue
            if not (is_out and call in self.kept_calls):
                self._gather(samples, row, view, call)
        if self._lacks_digest(row):
            hashed = guarded(lambda view: ";".join(digest.hex() for digest in view.digests()), view)
            row.digest = None if isinstance(hashed, Unknown) else hashed

    def _gather(self, samples: SampleTable, row: Row, view: ShardView, call: ScoreCall) -> None:
        found = guarded(self.scores[call].gather, view)  # type: ignore[attr-defined]
        if isinstance(found, bytes):
            samples.gathered[call][row.number] = found
        elif isinstance(found, Unknown):
            samples.columns[call][row.number] = found
        else:
            error = TypeError(f"gather() returned {described(found)}: it must return bytes")
            samples.columns[call][row.number] = failed(error)

    def wanted(self, samples: SampleTable, row: Row) -> list[ScoreCall]:
        """Return the model scores that a sample needs next."""
        if not self.model_calls or row.trouble:
            return []
        calls = [call for call in self._needed(samples, row) if call not in self.gathered_calls]
        is_out = self._is_out(row)
        if self.model_calls.isdisjoint(calls) and not is_out:
            calls += self._ranked
        calls += self._asked
        calls += [call for call in self.gathered_calls if not (is_out and call in self.kept_calls)]
        return [
            call
            for call in dict.fromkeys(calls)
            if call in self.model_calls and not samples.has(row, call)
        ]

    def _is_out(self, row: Row) -> bool:
        """Return whether a sample is dropped or quarantined by what is known, regardless of comparisons."""
        judgement = row.judgement
        if judgement is None or judgement.keep:
            return False
        return judgement.keep is False or self.recipe.unknown != "keep"

    @property
    def models(self) -> tuple[Model, ...]:
        """The models of the scores."""
        return self.models_of(self.scores)

    def models_of(self, calls: Collection[ScoreCall]) -> tuple[Model, ...]:
        """Return the models of some scores."""
        scores = (
            score
            for call, score in self.scores.items()
            if call in calls and isinstance(score, ModelScore)
        )
        return tuple(dict.fromkeys(model for score in scores for model in score.models()))

    def decide(self, samples: SampleTable) -> None:
        """Set the outcomes of samples by their scores. Raises MissingScore if one of a required score is missing."""
        if self.decider is not None:
            self.decider.advance(samples, samples.readable)
        for row in samples.rows:
            row.outcome, row.term, row.error, row.detail = "kept", None, None, None
            if row.trouble.startswith(DROPPED):
                row.outcome, row.term, row.detail = (
                    "dropped",
                    row.trouble.removeprefix(DROPPED),
                    row.about or None,
                )
            elif row.trouble:
                row.quarantine(row.trouble, row.about)
            elif self.decider is not None:
                self._set_outcome(samples, row)

    def _needed(self, samples: SampleTable, row: Row) -> Sequence[ScoreCall]:
        """Return the scores that a sample needs next to be decided."""
        return samples.needed.get(row.number, ()) if row.judgement is None else ()

    def _set_outcome(self, samples: SampleTable, row: Row) -> None:
        judgement = row.judgement
        if judgement is None:
            missing = self._needed(samples, row)[0]
            raise MissingScore(
                str(missing),
                f"{missing} was not computed for sample {row.number}, and maybe for others",
            )
        if judgement.keep:
            return
        row.term = str(judgement.term)
        if judgement.unknown is None:
            row.outcome = "dropped"
            return
        if self.recipe.unknown == "quarantine":
            row.quarantine(judgement.unknown.slug, judgement.unknown.detail)
            return
        row.outcome = "kept" if self.recipe.unknown == "keep" else "dropped"
        row.error, row.detail = judgement.unknown.slug, judgement.unknown.detail or None

    def compared(self, samples: SampleTable, call: ScoreCall) -> list[Row]:
        """Return the samples that take part in a comparison: all readable samples, or those that the other terms keep.

        The other terms are those without scores that compare kept samples; values of scores that
        compare all samples must be known by then.
        """
        readable = samples.readable
        if self.decider is None or call not in self.kept_calls:
            return readable
        self.decider.advance(samples, readable)
        open_ = [row for row in readable if row.judgement is None]
        for row in open_:
            for needed in self._needed(samples, row):
                if needed not in self.kept_calls:
                    what = (
                        f"{needed} was not computed for sample {row.number}, and maybe for others"
                    )
                    raise NotCompared(str(needed), what)
        by_others = {row.number for row in open_}
        if self.recipe.unknown != "keep" and self._others is not None and open_:
            known = [each for each in self.scores if each not in self.kept_calls]
            found = evaluate(self._others, samples, open_, known)
            by_others = {
                row.number for row, keep in zip(open_, found.keep.tolist(), strict=True) if keep
            }
        return [
            row
            for row in readable
            if (row.number in by_others if row.judgement is None else not self._is_out(row))
        ]

    def _compute(
        self, samples: SampleTable, call: ScoreCall, seen: Sequence[Seen], mark: Mark
    ) -> None:
        """Compute a score of those samples that lack it, unless it is computed elsewhere."""
        way, column = self._ways.get(call), samples.columns[call]
        if way is None:
            return
        for row, view in seen:
            number = row.number
            if number not in column:
                mark.set(number)
                column[number] = guarded(way, view)

    def _complete(
        self, samples: SampleTable, row: Row, view: ShardView, calls: Sequence[ScoreCall]
    ) -> None:
        for call in calls:
            way, column = self._ways.get(call), samples.columns[call]
            if way is not None and row.number not in column:
                column[row.number] = guarded(way, view)


@lru_cache(maxsize=4)
def program_of(recipe: Recipe) -> Program:
    """Return the program of a recipe; cached per process."""
    return Program(recipe)
