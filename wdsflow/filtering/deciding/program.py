"""A recipe, ready to run: scores, their order, and the outcome of each sample."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property, lru_cache, partial

from wdsflow.filtering.ledger.ledger import in_utf8
from wdsflow.filtering.ledger.ledger_row import NOT_COMPARED, MissingScore, Row
from wdsflow.filtering.recipe.recipe import CODE, Recipe, canonical
from wdsflow.filtering.recipe.recipe_stages import stage_identities
from wdsflow.filtering.run_folder import ShardRecord
from wdsflow.filtering.samples import DROPPED, ShardView, way_of
from wdsflow.filtering.where.known_facts import FACTS, RankPercent
from wdsflow.filtering.where.predicate import Judgement, parse, parse_score
from wdsflow.filtering.where.predicate_planner import plan_by
from wdsflow.filtering.where.rewriting import RankedNumber, ranked_number
from wdsflow.filtering.where.values import PENDING, Call, Pending, Unknown, Value, spelled
from wdsflow.memory.sizes import parse_size
from wdsflow.stages.scores.base import DatasetScore, Score
from wdsflow.stages.scores.model.model_score import Model, ModelScore
from wdsflow.stages.scores.sample_view import ViewOptions
from wdsflow.stages.scores.score_catalog import all_scores, make_score

from .checked_values import RAISED, failed, gathered, guarded, in_plain, must_be_installed


class Program:
    """Computes the scores of a recipe, and decides. Raises WhereError for an invalid predicate or score."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        parse_size(recipe.image_memory)  # a wrong one is reported before the first sample
        names = all_scores()
        self._where = parse(recipe.where, names) if recipe.where.strip() else None
        asked = [parse_score(text, names) for text in recipe.scores]
        wanted = self._where.calls if self._where else ()
        self.scores = {call: _made(call) for call in dict.fromkeys((*wanted, *asked))}
        # The numbers of ranks are other scores: of all samples, or of those that the other terms keep.
        self.ranks: dict[Call, RankedNumber] = {
            call: ranked_number(score, names) for call, score in self.scores.items() if isinstance(score, RankPercent)
        }
        for call, number in self.ranks.items():
            self.scores |= {each: _made(each) for each in number.calls if each not in self.scores}
            if self.scores[call].settings()["among"] == "all" or call in asked:
                asked += number.calls
        for score in self.scores.values():
            must_be_installed(score)
        self.dataset_calls = tuple(call for call, score in self.scores.items() if isinstance(score, DatasetScore))
        late = frozenset(self.dataset_calls)
        self.gathered_calls = tuple(call for call in self.dataset_calls if call not in self.ranks)
        # For these scores, the other scores are ordinary terms.
        self.kept_calls = frozenset(call for call in late if getattr(self.scores[call], "among", "") == "kept")
        self.model_calls = frozenset(call for call, score in self.scores.items() if isinstance(score, ModelScore))
        later = late | self.model_calls
        self._ways = {call: in_plain(score, way_of(score)) for call, score in self.scores.items() if call not in later}
        self.plan = plan_by(recipe.pilot, self._where, last=late) if self._where else None
        self.kinds: dict[Call, str] = {call: score.kind for call, score in self.scores.items()}
        self._asked = tuple(call for call in asked if call not in later)
        self._models_asked = tuple(call for call in asked if call in self.model_calls)
        beside = [
            call
            for term in (self.plan.terms if self.plan else ())
            if late.intersection(term.calls)
            for own in term.calls
            for call in (own, *(self.ranks[own].calls if own in self.ranks else ()))
        ]
        self._beside_late = tuple(call for call in beside if call not in later)
        self._models_beside_late = tuple(call for call in beside if call in self.model_calls)
        self._more = bool(self._asked or self._beside_late or self.dataset_calls or recipe.hash_images)
        ranked = {call for number in self.ranks.values() for call in number.calls}
        # They need no decoding, no model and no other sample, so that a cut can compute them as it reads the samples.
        self.cheap_calls = frozenset(
            call
            for call, score in self.scores.items()
            if score.tier in {"header", "text"} and call in self._ways and call not in ranked and not self.kept_calls
        )
        self._cheap_ways = {call: self._ways[call] for call in self.cheap_calls}

    def identities(self) -> dict[str, object]:
        """Return what determines the outcome in addition to recipe and shards."""
        options = ViewOptions(images=self.recipe.images, captions=self.recipe.captions)
        return {
            "code": CODE,
            "view": options.identity(),
            "stages": stage_identities(self.recipe.stages),
            "scores": {str(call): score.identity() for call, score in self.scores.items()},
            "order": [str(term) for term in self.plan.terms] if self.plan else [],
        }

    @cached_property
    def score_identities(self) -> object:
        """The identities of the scores, as JSON."""
        return json.loads(canonical(self.identities()["scores"]))

    def reads_contents(self, known: Collection[Call] = ()) -> bool:
        """Return whether whole members are read for the scores that are not known."""
        late = frozenset(self.gathered_calls)
        return self.recipe.hash_images or any(
            score.tier in {"pixels", "model"} or call in late
            for call, score in self.scores.items()
            if call not in known
        )

    @property
    def gpus(self) -> float:
        """GPUs that a worker needs for all model scores: a share of one, or whole ones."""
        total = sum(score.gpus for score in self.scores.values())
        return total if total <= 1 else math.ceil(total)

    def score(self, row: Row, view: ShardView) -> None:
        """Compute what is needed to decide a sample, cheap scores first, and stop when it is decided.

        Model scores are left open: see ``wanted``.
        """
        self.resume(row, view)
        if not self._more:
            return
        judgement = row.judgement
        if judgement is None and self.plan is not None:
            self._complete(row, view, self._beside_late)
            judgement = self.plan.where.judge(row.values)
        dropped = judgement is not None and self._puts_out(judgement)
        self._complete(row, view, self._asked)
        for call in self.gathered_calls:
            if (dropped and call in self.kept_calls) or call in row.gathered or call in row.values:
                continue
            score = self.scores[call]
            assert isinstance(score, DatasetScore)
            found = guarded(partial(gathered, score), view)
            if isinstance(found, Unknown):
                row.values[call] = found
            else:
                row.gathered[call] = found
        if self.recipe.hash_images and row.digest is None:
            hashed = guarded(lambda view: ";".join(digest.hex() for digest in view.digests()), view)
            row.digest = None if isinstance(hashed, Unknown) else hashed

    def resume(self, row: Row, view: ShardView, *, cheap: bool = False) -> None:
        """Continue to decide a sample with its known values, as far as possible without a model.

        ``cheap``: only with the scores of headers and texts; nothing is decoded.
        """
        if self.plan is None or row.judgement is not None:
            return
        known, ways = row.values, self._cheap_ways if cheap else self._ways

        def compute(call: Call) -> Value | Unknown | Pending:
            if known and call in known:
                return known[call]
            way = ways.get(call)
            if way is None:
                return PENDING
            try:
                return way(view)
            except RAISED as error:
                return failed(error)

        judgement, values = self.plan.drive(compute)
        row.values = {**known, **values} if known else values
        if judgement.settled:
            row.judgement = judgement

    def wanted(self, row: Row) -> list[Call]:
        """Return the model scores that a sample needs next."""
        if not self.model_calls or row.trouble:
            return []
        calls: list[Call] = []
        if self.plan is not None and row.judgement is None:
            needed = self.plan.next_needed(row.values)
            if needed in self.model_calls:
                calls.append(needed)
            elif self.plan.where.judge(row.values).keep is not False:
                calls += [call for call in self._models_beside_late if call not in row.values]
        calls += [call for call in self._models_asked if call not in row.values]
        return list(dict.fromkeys(calls))

    @property
    def models(self) -> tuple[Model, ...]:
        """The models of the scores."""
        return self.models_of(self.scores)

    def models_of(self, calls: Collection[Call]) -> tuple[Model, ...]:
        """Return the models of some scores."""
        scores = (score for call, score in self.scores.items() if call in calls and isinstance(score, ModelScore))
        return tuple(dict.fromkeys(model for score in scores for model in score.models()))

    def is_open(self, row: Row) -> bool:
        """Return whether the plan asks for a score of headers and texts that a sample lacks."""
        if row.trouble or self.plan is None or self.cheap_calls <= row.values.keys():
            return False
        return not self.plan.drive(lambda call: row.values.get(call, PENDING))[0].settled

    def decide(self, row: Row) -> None:
        """Set the outcome of a sample. Raises LedgerError if a score is missing that it depends on."""
        row.outcome, row.term, row.error, row.detail = "kept", None, None, None
        if row.trouble.startswith(DROPPED):
            row.outcome, row.term, row.detail = "dropped", row.trouble.removeprefix(DROPPED), row.about or None
            return
        if row.trouble:
            row.quarantine(row.trouble, row.about)
            return
        if self.plan is None:
            return
        judgement = row.judgement or self.plan.settle(row.values)
        if judgement.keep is None and judgement.unknown is None:
            missing = self.plan.next_needed(row.values)
            raise MissingScore(
                str(missing), f"{missing} was not computed for sample {row.number}, and maybe for others"
            )
        if judgement.keep:
            return
        row.term = str(judgement.term) if judgement.term else None
        if judgement.keep is False:
            row.outcome = "dropped"
            return
        assert judgement.unknown is not None
        if self.recipe.unknown == "quarantine":
            row.quarantine(judgement.unknown.slug, judgement.unknown.detail)
        else:
            row.outcome = "kept" if self.recipe.unknown == "keep" else "dropped"
            row.error, row.detail = judgement.unknown.slug, judgement.unknown.detail or None

    def is_compared(self, row: Row, call: Call) -> bool:
        """Return whether a sample takes part in a comparison: all readable samples, or those that the other terms keep.

        The other terms are those without scores that compare kept samples; values of scores that compare all samples
        must be known by then.
        """
        if row.trouble:
            return False
        if self.plan is None or call not in self.kept_calls:
            return True
        judgement = self.plan.where.judge(row.values)
        if judgement.settled or self.recipe.unknown == "keep":
            return not self._puts_out(judgement)
        own = (term for term in self.plan.terms if self.kept_calls.isdisjoint(term.calls))
        return all(term.result(row.values) is True for term in own)

    def _puts_out(self, judgement: Judgement) -> bool:
        """Return whether a sample is dropped or quarantined, whatever comparisons of all samples give."""
        return judgement.keep is False or (judgement.unknown is not None and self.recipe.unknown != "keep")

    def _complete(self, row: Row, view: ShardView, calls: Sequence[Call]) -> None:
        for call in calls:
            if call not in row.values:
                row.values[call] = guarded(self._ways[call], view)


def _made(call: Call) -> Score:
    if call.name in all_scores():
        return make_score(call.name, **dict(call.settings))
    return FACTS[call.name](**dict(call.settings))


@lru_cache(maxsize=4)
def program_of(recipe: Recipe) -> Program:
    """Return the program of a recipe; a process makes it once."""
    return Program(recipe)


_LONGEST = 200  # characters


def count(rows: Sequence[Row], record: ShardRecord, program: "Program") -> None:
    """Add the outcomes of its samples to the record of a shard."""
    dropped: Counter[str] = Counter()
    quarantined: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    examples: dict[str, tuple[str, str]] = {}
    for row in rows:
        if row.outcome == "kept":
            record.kept += 1
        elif row.outcome == "dropped":
            dropped[what := row.term or ""] += 1
            if dropped[what] == 1:
                examples[f"dropped {what}"] = _example(row, row.detail or _values(row, what, program))
        else:
            quarantined[what := row.error or ""] += 1
            if quarantined[what] == 1:
                examples[f"quarantined {what}"] = _example(row, row.detail or "")
        for call, value in row.values.items():
            if isinstance(value, Unknown) and value != NOT_COMPARED:
                failed[what := f"{call}: {value.slug}"] += 1
                if failed[what] == 1:
                    examples[f"failed {what}"] = _example(row, value.detail)
    record.samples = len(rows)
    record.uncounted = uncounted(row.key for row in rows if row.outcome == "kept")
    record.dropped, record.quarantined = dict(sorted(dropped.items())), dict(sorted(quarantined.items()))
    record.failed, record.examples = dict(sorted(failed.items())), dict(sorted(examples.items()))


def uncounted(keys: Iterable[str]) -> int:
    """Return how many samples readers do not count: those whose key came before."""
    known, found = set[str](), 0
    for key in keys:
        found += key in known
        known.add(key)
    return found


def _example(row: Row, about: str) -> tuple[str, str]:
    return in_utf8(row.key)[:_LONGEST], in_utf8(about)[:_LONGEST]


def _values(row: Row, term: str, program: "Program") -> str:
    """Return the values by which a term dropped a sample, such as "min_side is 64"."""
    found = next((each for each in (program.plan.terms if program.plan else ()) if str(each) == term), None)
    known = [(call, row.values[call]) for call in (found.calls if found else ()) if call in row.values]
    return ", ".join(f"{call} is {_shown(value)}" for call, value in known)


def _shown(value: Value | Unknown) -> str:
    if value is None or isinstance(value, Unknown):
        return f"unknown ({value.slug})" if value else "null"
    return " and ".join(map(_shown, value)) if isinstance(value, list) else spelled(value)
