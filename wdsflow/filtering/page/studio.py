"""Scores of a run's page as sliders and checkboxes, and their values in each sample."""

import base64
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wdsflow.expressions.evaluator import Evaluator
from wdsflow.expressions.expression import Term
from wdsflow.expressions.score_call import Constant, ScoreCall, spelled
from wdsflow.expressions.tree import Compare, Literal, Membership, Node, Operation, ScoreValue
from wdsflow.filtering.deciding.row_values import results
from wdsflow.filtering.ledger.sample_table import SampleTable
from wdsflow.filtering.predicates.catalog import parse
from wdsflow.filtering.predicates.values import NOT_COMPUTED, NotComputed, Unknown, Value
from wdsflow.pages.histograms import Chart, chart, number
from wdsflow.stages.scores.score_catalog import all_scores
from wdsflow.text.words import number_text, roundest_after

# Positions of a value that could not be computed, and of one that was not needed.
_NO_POSITION, _NOT_NEEDED = -1, -2
_SHORT = 9  # characters of a number that needs no rounding

Floats: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.signedinteger]


_Known: TypeAlias = Value | Unknown | NotComputed


def edges_of(values: Floats, most: int, also: Sequence[float] = ()) -> list[float]:
    """Return at most ``most`` edges, ascending, and those of ``also``.

    Each distinct value is one if there are few enough, and all have few digits. Otherwise edges are numbers of few digits
    before distinct values: before each of them, or at equal shares of the values.
    """
    ordered = np.sort(values[np.isfinite(values)])
    distinct = np.unique(ordered)
    if len(distinct) <= most and all(len(number_text(value)) <= _SHORT for value in distinct.tolist()):
        found = set(distinct.tolist())
    elif len(distinct) <= most:
        found = {_edge_before(distinct, place, strictly=True) for place in range(len(distinct))}
    else:
        places = np.unique(np.searchsorted(distinct, ordered[np.linspace(0, len(ordered) - 1, most).astype(np.int64)]))
        found = {_edge_before(distinct, place, strictly=False) for place in places.tolist()}
    return sorted(found | {float(each) for each in also if math.isfinite(each)})


def _edge_before(distinct: Floats, place: int, *, strictly: bool) -> float:
    """Return the number of fewest digits that is greater than the value before a place, and at most the one there.

    ``strictly``: below it, so that the edges of neighbours divide all values in both directions. Before the first value
    there is as much room as after it.
    """
    value = float(distinct[place])
    if len(distinct) == 1:
        return value
    if place == 0:
        return roundest_after(2 * value - float(distinct[1]), value)
    most = float(np.nextafter(value, -math.inf)) if strictly else value
    below = float(distinct[place - 1])
    return roundest_after(below, most) if below < most else value


def codes_of(values: Floats, edges: Sequence[float]) -> Codes:
    """Return the codes of finite values."""
    ends = np.asarray(edges, np.float64)
    left = np.searchsorted(ends, values, "left")
    equal = ends[np.minimum(left, len(ends) - 1)] == values if len(ends) else np.zeros(len(values), bool)
    found: Codes = 2 * left + equal
    return found


def packed(codes: Codes, kind: type[np.unsignedinteger]) -> str:
    """Return whole numbers as the bytes of a type of numpy's, in base64."""
    return base64.b64encode(codes.astype(kind).tobytes()).decode()


_LISTED = 20  # values with a box each
_LONGEST = 200  # characters of one
_OTHER, _UNKNOWN, _PENDING = 1 << _LISTED, 1 << (_LISTED + 1), 1 << (_LISTED + 2)


@dataclass(frozen=True, slots=True)
class Choice:
    """One score of all rows that is not a number: its most frequent values, and which of them each row has.

    ``masks`` are sets of values as bits; ``codes`` gives the mask of each row; ``ticked`` are the values that the
    run's own predicate allows, none if it allows all.
    """

    call: ScoreCall
    values: list[tuple[Constant, int]]  # with the number of samples
    masks: list[int]
    codes: Codes
    ticked: tuple[Constant, ...] = ()

    @property
    def shown(self) -> list[tuple[str, int]]:
        """The values as texts, with their numbers of samples."""
        return [(_shown(value), count) for value, count in self.values]

    def for_script(self) -> dict[str, object]:
        """Return the data for ``studio.js``."""
        return {
            "name": str(self.call),
            "literals": [spelled(value) for value, _ in self.values],
            "start": [value in self.ticked for value, _ in self.values],
            "masks": self.masks,
            "codes": packed(self.codes, np.uint16 if len(self.masks) > 256 else np.uint8),
            "bits": 16 if len(self.masks) > 256 else 8,
            "unknown": _UNKNOWN,
            "pending": _PENDING,
        }


def choice(values: Sequence[_Known], call: ScoreCall, ticked: Sequence[Constant] = ()) -> Choice | None:
    """Return the choice of a score by its values; it lists those of ``ticked`` too. None if no row has a value."""
    entries_of_rows = list(map(_entries, values))
    counts: Counter[Constant] = Counter(
        value for entries in entries_of_rows for value in set(entries) if isinstance(value, (bool, str))
    )
    frequent = [value for value, _ in counts.most_common() if _can_be_written(value)]
    if not frequent:
        return None
    wanted = tuple(dict.fromkeys(ticked)) if all(map(_can_be_written, ticked)) else ()
    wanted = wanted if len(wanted) <= _LISTED else ()
    others = [value for value in frequent if value not in wanted][: _LISTED - len(wanted)]
    listed = sorted(((value, counts[value]) for value in (*wanted, *others)), key=lambda each: -each[1])
    bits = {value: 1 << number for number, (value, _) in enumerate(listed)}
    masks: dict[int, int] = {}
    codes = [masks.setdefault(sum({_bit(entry, bits) for entry in entries}), len(masks)) for entries in entries_of_rows]
    if len(masks) > 1 << 16:
        return None
    return Choice(call, listed, list(masks), np.array(codes, np.int64), wanted)


def _can_be_written(value: Constant) -> bool:
    """Return whether a predicate can contain a value: a short text without control characters."""
    return len(_shown(value)) <= _LONGEST and _shown(value).isprintable()


def _bit(entry: Constant | NotComputed | None, bits: Mapping[Constant, int]) -> int:
    if entry is NOT_COMPUTED:
        return _PENDING
    return bits.get(entry, _OTHER) if isinstance(entry, (bool, str)) else _UNKNOWN


def _entries(value: _Known) -> Sequence[Constant | NotComputed | None]:
    """Return the values of a sample; None is one that could not be computed."""
    if isinstance(value, list):
        return value or [None]
    return [None if isinstance(value, Unknown) else value]


def _shown(value: Constant) -> str:
    return str(value)


_MOST_EDGES = 500
_MOST_BYTES = 2_000_000  # of all codes, before they are written as text
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Limit:
    """An end of a slider: ``strict`` if the end itself is outside."""

    value: float
    strict: bool


@dataclass(frozen=True, slots=True)
class PredicateParts:
    """A predicate, taken apart: thresholds of single scores, and the other terms."""

    low: dict[ScoreCall, Limit]
    high: dict[ScoreCall, Limit]
    rest: tuple[Term, ...]
    ticked: dict[Term, tuple[ScoreCall, tuple[Constant, ...]]] = field(
        default_factory=dict
    )  # values that scores may have
    compared: tuple[
        Term, ...
    ] = ()  # they compare samples that all others keep, so that other thresholds change their values


@dataclass(frozen=True, slots=True)
class Slider:
    """One numeric score of all rows: its smallest and its largest value in each sample, and their codes."""

    call: ScoreCall
    edges: list[float]
    low: Codes  # or _NO_POSITION, _NOT_NEEDED
    high: Codes
    chart: Chart
    lows: Floats
    highs: Floats


def take_apart(where: str) -> PredicateParts:
    """Return the thresholds of a predicate, such as ``0.28 < clip_similarity``, and its other terms."""
    start = PredicateParts({}, {}, ())
    terms = parse(where, all_scores()).terms if where.strip() else ()
    compared = tuple(term for term in terms if any(map(compares_kept, term.scores)))
    ticked: dict[Term, tuple[ScoreCall, tuple[Constant, ...]]] = {}
    for term in terms:
        allowed = None if term in compared else _allowed(term.node)
        if allowed is not None and all(allowed[0] != call for call, _ in ticked.values()):
            ticked[term] = allowed
    rest = tuple(term for term in terms if term not in compared and term not in ticked and not _threshold(term, start))
    return replace(start, rest=rest, ticked=ticked, compared=compared)


def _allowed(node: Node) -> tuple[ScoreCall, tuple[Constant, ...]] | None:
    """Return a score and the values that a condition allows it; None if checkboxes cannot express that."""
    match node:
        case ScoreValue(call, "boolean"):
            return call, (True,)
        case Operation("not", (ScoreValue(call, "boolean"),)):
            return call, (False,)
        case Compare(("==",), (ScoreValue(call, "boolean" | "text"), Literal(value))):
            return call, (value,)
        case Compare(("==",), (Literal(value), ScoreValue(call, "boolean" | "text"))):
            return call, (value,)
        case Compare(("!=",), (ScoreValue(call, "boolean"), Literal(bool(value)))):
            return call, (not value,)
        case Membership((ScoreValue(call, "boolean" | "text"),), options):
            return call, options
    return None


def compares_kept(call: ScoreCall) -> bool:
    """Return whether a score compares only the samples that all other terms keep."""
    return ("among", "kept") in call.settings


def _threshold(term: Term, start: PredicateParts) -> bool:
    """Note the limits of a term; False if it is not a comparison of one score with numbers, or if it comes twice."""
    node = term.node
    if not isinstance(node, Compare):
        return False
    found: list[tuple[dict[ScoreCall, Limit], ScoreCall, Limit]] = []
    for sign, left, right in zip(node.signs, node.items, node.items[1:], strict=False):
        if isinstance(left, Literal) and isinstance(right, ScoreValue):
            left, right, sign = right, left, _TURNED.get(sign, sign)  # noqa: PLW2901
        if not (isinstance(left, ScoreValue) and left.kind == "number" and isinstance(right, Literal)):
            return False
        if sign not in _TURNED:
            return False
        side = start.low if sign.startswith(">") else start.high
        if left.call in side or any(side is other and call == left.call for other, call, _ in found):
            return False
        found.append((side, left.call, Limit(float(right.value), len(sign) == 1)))
    for side, call, limit in found:
        side[call] = limit
    return True


def slider(
    values: Sequence[_Known], call: ScoreCall, start: PredicateParts, *, scores: int, unknown_keeps: bool
) -> Slider | None:
    """Return a score with these values as a slider, one of ``scores``; None if no value is finite.

    A condition over several values of one sample holds if it holds for all: the smallest and the largest decide.
    """
    ends = np.array([_ends(value, keeps=unknown_keeps) for value in values], np.float64)
    low, high, state = ends.reshape(-1, 3).T
    finite = np.flatnonzero((state == 0) & np.isfinite(low))
    if not len(finite):
        return None
    most = _MOST_EDGES if 2 * scores * len(values) <= _MOST_BYTES else 120  # the codes of 120 fit into a byte
    limits = [side[call].value for side in (start.low, start.high) if call in side]
    edges = edges_of(low[finite], most, limits)
    drawn = chart(str(call), str(call), low[finite], marks=limits)
    assert drawn is not None
    return Slider(call, edges, _codes(low, state, edges), _codes(high, state, edges), drawn, low, high)


def _ends(value: _Known, *, keeps: bool) -> tuple[float, float, int]:
    """Return the smallest and the largest of a sample's values, and 0, or the reason without values."""
    if value is NOT_COMPUTED:
        return 0.0, 0.0, _NOT_NEEDED
    values = value if isinstance(value, list) else [value]
    known = [each for each in values if isinstance(each, (int, float)) and not math.isnan(each)]
    if not known or (len(known) < len(values) and not keeps):
        return 0.0, 0.0, _NO_POSITION
    return min(known), max(known), 0


def _codes(values: Floats, state: Floats, edges: Sequence[float]) -> Codes:
    return np.where(state == 0, codes_of(values, edges), state).astype(np.int16)


def for_script(found: Slider, start: PredicateParts, pictures: Iterable[tuple[int, int, float]]) -> dict[str, object]:
    """Return the data for ``studio.js``. ``pictures``: (row, number of its picture, value)."""
    largest = 2 * len(found.edges)
    kind: type[np.uint8 | np.uint16] = np.uint8 if largest < 254 else np.uint16
    special = np.iinfo(kind).max

    def stored(codes: Codes) -> str:
        return packed(
            np.where(codes == _NO_POSITION, special, np.where(codes == _NOT_NEEDED, special - 1, codes)), kind
        )

    same = bool(np.array_equal(found.low, found.high))
    ends = {
        name: None if found.call not in side else [found.edges.index(side[found.call].value), side[found.call].strict]
        for name, side in (("low", start.low), ("high", start.high))
    }
    return {
        "name": str(found.call),
        "edges": [number_text(edge) for edge in found.edges],
        "bits": 8 * np.dtype(kind).itemsize,
        "low": stored(found.low),
        "high": None if same else stored(found.high),
        "start": ends,
        "chart": found.chart.for_script(),
        "pictures": [
            [int(found.low[row]), int(found.high[row]), picture, number(value), row] for row, picture, value in pictures
        ],
    }


def values_of(shards: Iterable[SampleTable], call: ScoreCall) -> list[_Known]:
    """Return the value of a score for each readable row."""
    return [samples.columns[call].get(row.number, NOT_COMPUTED) for samples in shards for row in samples.readable]


def twins_of(shards: Iterable[SampleTable]) -> list[list[int]]:
    """Return the readable rows whose key occurs more than once in their shard: row, group, and 1 if it follows its twin.

    If all samples between two of them are dropped, a run quarantines the second as ``same-key``.
    """
    found: list[list[int]] = []
    first = groups = 0
    for samples in shards:
        rows = samples.readable
        counts = Counter(row.key for row in rows)
        numbers = {key: groups + place for place, (key, count) in enumerate(counts.items(), 1) if count > 1}
        for place, row in enumerate(rows):
            if row.key in numbers:
                before = rows[place - 1] if place else None
                follows = before is not None and (before.key, before.number) == (row.key, row.number - 1)
                found.append([first + place, numbers[row.key], int(follows)])
        first, groups = first + len(rows), groups + len(counts)
    return found


def results_of(shards: Iterable[SampleTable], terms: Sequence[Term]) -> str:
    """Return the result of terms for each readable row, as bytes in base64: 0 false, 1 true, 2 unknown, 3 not computed."""
    evaluator = Evaluator(parse(" and ".join(map(str, terms)), all_scores()))
    codes = bytearray()
    for samples in shards:
        for result in results(evaluator, samples, samples.readable):
            if isinstance(result, Unknown):
                codes.append(2)
            else:
                codes.append(3 if result is None else int(result))
    return base64.b64encode(codes).decode()
