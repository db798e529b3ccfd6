"""Scores of a run's page that are numbers: a slider for each."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.predicates.values import NOT_COMPUTED
from wdsflow.pages.histograms import Chart, chart, number_label
from wdsflow.text.words import number_text

from .edges import Codes, Floats, codes_of, edges_of, packed
from .predicate_parts import Limit, PredicateParts
from .row_results import RowValue

# Positions of a value that could not be computed, and of one that was not needed.
_NO_POSITION, _NOT_NEEDED = -1, -2
_MOST_EDGES = 500
# Their codes, and two for values without a position, fit into a byte.
_EDGES_IN_A_BYTE = 120
# Of all codes, before they are written as text.
_MOST_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class Slider:
    """One numeric score of all rows.

    It has the smallest and the largest value in each sample, and their codes.
    """

    call: ScoreCall
    edges: list[float]
    # Or _NO_POSITION, _NOT_NEEDED.
    low: Codes
    high: Codes
    chart: Chart
    lows: Floats
    highs: Floats


class SliderPicture(NamedTuple):
    """A sample that is shown next to a slider.

    It has its row, the number of its picture on the page, and its value.
    """

    row: int
    picture: int
    value: float


def slider(
    values: Sequence[RowValue],
    call: ScoreCall,
    start: PredicateParts,
    *,
    scores: int,
    unknown_keeps: bool,
) -> Slider | None:
    """Return a score with these values as a slider, one of ``scores``; None if no value is finite.

    A condition over several values of one sample holds if it holds for all: the smallest and the
    largest decide.
    """
    ends = np.array([_ends(value, keeps=unknown_keeps) for value in values], np.float64)
    low, high, state = ends.reshape(-1, 3).T
    has_value = (state == 0) & np.isfinite(low)
    finite = low[has_value]
    if not len(finite):
        return None
    # Two codes of two bytes for each sample and score.
    fits_two_bytes = 2 * scores * len(values) <= _MOST_BYTES
    most = _MOST_EDGES if fits_two_bytes else _EDGES_IN_A_BYTE
    limits = [side[call].value for side in (start.low, start.high) if call in side]
    edges = edges_of(finite, most, limits)
    drawn = chart(str(call), str(call), finite, marks=limits)
    assert drawn is not None
    low_codes = _codes(low, state, edges)
    high_codes = _codes(high, state, edges)
    return Slider(call, edges, low_codes, high_codes, drawn, low, high)


def _ends(value: RowValue, *, keeps: bool) -> tuple[float, float, int]:
    """Return the smallest and the largest of a sample's values, and 0.

    Without values, the last item is the reason.
    """
    if value is NOT_COMPUTED:
        return 0.0, 0.0, _NOT_NEEDED
    values = value if isinstance(value, list) else [value]
    numbers = [item for item in values if isinstance(item, (int, float)) and not math.isnan(item)]
    if not numbers or (len(numbers) < len(values) and not keeps):
        return 0.0, 0.0, _NO_POSITION
    return min(numbers), max(numbers), 0


def _codes(values: Floats, state: Floats, edges: Sequence[float]) -> Codes:
    return np.where(state == 0, codes_of(values, edges), state).astype(np.int16)


def for_script(
    shown: Slider, start: PredicateParts, pictures: Iterable[SliderPicture]
) -> dict[str, object]:
    """Return the data for ``studio.js``."""
    largest = 2 * len(shown.edges)
    kind: type[np.uint8 | np.uint16] = np.uint8 if largest < 254 else np.uint16
    same = bool(np.array_equal(shown.low, shown.high))
    pictures_with_codes: list[list[object]] = []
    for row, picture, value in pictures:
        low, high = int(shown.low[row]), int(shown.high[row])
        pictures_with_codes.append([low, high, picture, number_label(value), row])
    return {
        "name": str(shown.call),
        "edges": [number_text(edge) for edge in shown.edges],
        "bits": 8 * np.dtype(kind).itemsize,
        "low": _encoded(shown.low, kind),
        "high": None if same else _encoded(shown.high, kind),
        "start": {"low": _initial_end(shown, start.low), "high": _initial_end(shown, start.high)},
        "chart": shown.chart.for_script(),
        "pictures": pictures_with_codes,
    }


def _encoded(codes: Codes, kind: type[np.uint8 | np.uint16]) -> str:
    """Return codes as bytes in base64.

    The largest numbers of the type stand for values without a position.
    """
    largest = np.iinfo(kind).max
    stored = codes.astype(np.int64)
    stored[codes == _NO_POSITION] = largest
    stored[codes == _NOT_NEEDED] = largest - 1
    return packed(stored, kind)


def _initial_end(shown: Slider, limits: Mapping[ScoreCall, Limit]) -> list[object] | None:
    """Return one end of a slider at the start; None if it is open.

    An end is the number of its edge, and whether it is strict.
    """
    if shown.call not in limits:
        return None
    limit = limits[shown.call]
    return [shown.edges.index(limit.value), limit.strict]
