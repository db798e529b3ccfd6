"""Names in the json of samples that predicates use: what is there instead of one that no sample has."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from wdsflow.filtering.where.known_facts import InJson, JsonNumber, JsonTextFact
from wdsflow.filtering.where.language.predicate_errors import nearest
from wdsflow.stages.scores.sample_view import View
from wdsflow.stages.scores.score_errors import ScoreError
from wdsflow.text.words import how_many

_NOT_THERE = frozenset({"no-json", "no-value", "not-a-number", "not-text"})
_DEEPEST, _MOST = 4, 1_000  # levels of nested objects, and names, that are looked at
_LISTED = 8  # names that a message lists
_OF_KIND: dict[type, type[InJson]] = {int: JsonNumber, float: JsonNumber, str: JsonTextFact}
_KIND = {"json_number": "number", "json_text": "text"}


class FoundName(NamedTuple):
    """A name in json that may be meant, with the score that reads it, and how many of the checked samples have it."""

    score: str
    path: str
    there: int
    samples: int

    def __str__(self) -> str:
        have = f"{self.there:,} of {self.samples:,} checked samples have a {_KIND[self.score]} {self.path!r}"
        return f"{have}: {self.score}({self.path!r})"


class NoJsonValue(ValueError):
    """No sample has the value of a score of json.

    ``found`` is the name that may be meant, None if none is similar; ``there`` are then some that samples have.
    """

    def __init__(
        self, score: InJson, samples: int, shards: int, found: FoundName | None, there: Sequence[FoundName] = ()
    ) -> None:
        of = f"{how_many(samples, 'sample')} in {how_many(shards, 'shard')}"
        super().__init__(f"no sample has a {_KIND[score.name]} {score.path!r} in its {score.field}: {of}")
        self.score, self.found, self.there = score, found, tuple(there)


def has_value(view: View, score: InJson) -> bool:
    """Return whether a sample has the value; True if it cannot be known."""
    try:
        score.score(view)
    except ScoreError as error:
        return error.slug not in _NOT_THERE
    except OSError:  # a stream that cannot go back to it
        return True
    return True


def nearest_name(views: Iterable[View], score: InJson) -> tuple[FoundName | None, list[FoundName]]:
    """Return the name in the json of some samples that is nearest to that of a score, and the most frequent names.

    The nearest is one of the score's kind, if there is any. The others are at most 8, those of its kind first.
    """
    counts: Counter[tuple[str, str]] = Counter()  # name of a score, path
    samples = 0
    for view in views:
        samples += 1
        with suppress(ScoreError, OSError):
            for path, value in _values(view.json(score.field.lower())):
                kind = _OF_KIND.get(type(value))
                if kind is not None and (len(counts) < _MOST or (kind.name, path) in counts):
                    counts[kind.name, path] += 1
    by_kind: dict[str, list[str]] = {}
    for name, path in counts:
        by_kind.setdefault(name, []).append(path)
    others = [name for name in by_kind if name != score.name and score.path in by_kind[name]]
    for name in [*others, score.name]:
        if path := score.path if name in others else _alike(score.path, by_kind.get(name, [])):
            return FoundName(name, path, counts[name, path], samples), []
    names = sorted(counts, key=lambda name: (name[0] != score.name, -counts[name]))[:_LISTED]
    return None, [FoundName(*name, counts[name], samples) for name in names]


def _alike(path: str, known: list[str]) -> str:
    """Return the known path that is nearest, or that ends in the same name."""
    last = path.rpartition(".")[2]
    return nearest(path, known) or next((each for each in known if each.rpartition(".")[2] == last), "")


def _values(tree: Any, above: str = "", level: int = 1) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items() if isinstance(tree, dict) else ():
        path = f"{above}{name}"
        yield path, value
        if level < _DEEPEST:
            yield from _values(value, f"{path}.", level + 1)
