"""Names in the json of samples that may be meant by a predicate whose name no sample has."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from wdsflow.expressions.errors import nearest
from wdsflow.filtering.predicates.sample_facts import InJson, JsonNumber, JsonTextFact
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.sample_view import View
from wdsflow.text.words import how_many

from .checked_samples import SearchScope

# Searched levels of nested objects, and names.
_DEEPEST, _MOST_NAMES = 4, 1_000
# Names that a message lists.
_LISTED = 8
# The score that reads a value of a type.
_SCORES: dict[type, type[InJson]] = {int: JsonNumber, float: JsonNumber, str: JsonTextFact}
# Types that no score reads, in words.
_UNREAD: dict[type, str] = {
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
_KIND = {"json_number": "number", "json_text": "text"}


class JsonName(NamedTuple):
    """A name in json, and the score that reads its values.

    Also how many of the checked samples have a value.
    """

    score: str
    path: str
    samples_with: int
    samples: int

    def __str__(self) -> str:
        have = f"{self.samples_with:,} of {self.samples:,} checked samples have a {_KIND[self.score]} {self.path!r}"
        return f"{have}: {self.score}({self.path!r})"


class NoJsonValue(ValueError):
    """No sample has the value of a score of json.

    Attributes:
        score: the score.
        nearest: the name that may be meant, None if none is similar.
        frequent: names that samples have, if none is similar.
        is_all: whether all samples were searched.

    ``rejected`` describes the values that samples have under the name, if no score reads them.
    """

    def __init__(
        self,
        score: InJson,
        scope: SearchScope,
        nearest: JsonName | None,
        frequent: Sequence[JsonName] = (),
        rejected: str = "",
    ) -> None:
        searched = f"{how_many(scope.samples, 'sample')} of {how_many(scope.shards, 'shard')}"
        other = f"; {rejected}" if rejected else ""
        super().__init__(
            f"{scope.nothing_found_subject} has a {_KIND[score.name]} {score.path!r} in its {score.field}: {searched}{other}"
        )
        self.score = score
        self.nearest = nearest
        self.frequent = tuple(frequent)
        self.is_all = scope.is_all


def similar_names(
    views: Iterable[View], score: InJson
) -> tuple[JsonName | None, list[JsonName], str]:
    """Return the name in json nearest to that of a score, the most frequent names, and a text.

    They are names in the json of some samples.

    The nearest has a value for the score if possible. The others are at most 8, those of its kind
    first. The text describes the values under the score's name if no score reads them.
    """
    # Type of the values under the name that no score reads.
    unread: Counter[str] = Counter()
    # Name of a score, path.
    counts: Counter[tuple[str, str]] = Counter()
    samples = 0
    for view in views:
        samples += 1
        with suppress(ScoreError, OSError):
            for path, value in _values(view.json(score.field.lower())):
                reader = _SCORES.get(type(value))
                if reader is not None:
                    name = reader.name, path
                    if len(counts) < _MOST_NAMES or name in counts:
                        counts[name] += 1
                elif path == score.path:
                    unread[_UNREAD[type(value)]] += 1
    similar = _most_similar(counts, score)
    if similar is not None:
        return JsonName(*similar, counts[similar], samples), [], ""
    rejected = ""
    if unread:
        kind, count = unread.most_common(1)[0]
        rejected = (
            f"{count:,} of {samples:,} checked samples have {kind} there, which no score reads"
        )
    names = sorted(counts, key=lambda name: (name[0] != score.name, -counts[name]))[:_LISTED]
    return None, [JsonName(*name, counts[name], samples) for name in names], rejected


def _most_similar(counts: Counter[tuple[str, str]], score: InJson) -> tuple[str, str] | None:
    """Return the score and path that may be meant, None if none is similar."""
    paths_of: dict[str, list[str]] = {}
    for name, path in counts:
        paths_of.setdefault(name, []).append(path)
    # The same path, with values that another score reads.
    for name, paths in paths_of.items():
        if name != score.name and score.path in paths:
            return name, score.path
    paths = paths_of.get(score.name, [])
    path = nearest(score.path, paths)
    if path:
        return score.name, path
    last_part = score.path.rpartition(".")[2]
    for path in paths:
        if path.rpartition(".")[2] == last_part:
            return score.name, path
    return None


def _values(tree: object, above: str = "", level: int = 1) -> Iterator[tuple[str, object]]:
    """Yield the paths in an object of json, with their values."""
    if not isinstance(tree, dict):
        return
    for name, value in tree.items():
        path = f"{above}{name}"
        yield path, value
        if level < _DEEPEST:
            yield from _values(value, f"{path}.", level + 1)
