"""The samples near the thresholds of a page's sliders, and their pictures."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.sample_table import Row, SampleTable
from wdsflow.pages.page_samples import samples_at
from wdsflow.pages.sample_views import SampleView, view
from wdsflow.records.run_folder import ShardRecord
from wdsflow.shards.shard import Shard

from .edges import Floats
from .predicate_parts import Limit, PredicateParts
from .sliders import Slider

# Samples on each side of a threshold.
FEW = 6
# Pictures of a page, and of one score.
_PICTURES, _OF_ONE = 400, 48

# Of a score: the number of a row, that of its picture, and its value.
ShownRow = tuple[int, int, float]


def near_samples(slider: Slider, start: PredicateParts, most: int) -> list[int]:
    """Return rows in the order of the score, at most ``most`` or those at its ends and cuts; rows without a value do not count."""
    with_value = np.flatnonzero(slider.low >= 0)
    lows, highs = slider.lows, slider.highs
    by_low = with_value[np.argsort(lows[with_value], kind="stable")]
    by_high = with_value[np.argsort(highs[with_value], kind="stable")]
    chosen = {*by_low[:FEW].tolist(), *by_high[-FEW:].tolist()}
    low_limit = start.low.get(slider.call)
    if low_limit is not None:
        chosen |= _around(by_low, lows[by_low], low_limit, above=True)
    high_limit = start.high.get(slider.call)
    if high_limit is not None:
        chosen |= _around(by_high, highs[by_high], high_limit, above=False)
    room = most - len(chosen)
    if room > 0:
        spaced = np.linspace(0, len(by_low) - 1, min(room, len(by_low)))
        positions = np.unique(spaced.astype(np.int64))
        chosen.update(by_low[positions].tolist())
    return [row for row in by_low.tolist() if row in chosen]


def _around(order: NDArray[np.int64], values: Floats, limit: Limit, *, above: bool) -> set[int]:
    """Return the rows on both sides of a cut. ``above``: values above it are kept, so that a strict cut is dropped."""
    side: Literal["left", "right"] = "right" if limit.strict == above else "left"
    position = int(np.searchsorted(values, limit.value, side))
    return set(order[max(position - FEW, 0) : position + FEW].tolist())


def near_pictures(
    drawn: Sequence[tuple[ShardRecord, SampleTable]],
    sliders: Sequence[Slider],
    start: PredicateParts,
) -> tuple[dict[ScoreCall, list[ShownRow]], list[SampleView]]:
    """Return rows of each score in its order, and the pictures of all: see ``near_samples``.

    A row whose shard has changed, or cannot be read, has no picture and is left out.
    """
    most = min(_OF_ONE, _PICTURES // max(len(sliders), 1))
    near = {slider.call: near_samples(slider, start, most) for slider in sliders}
    numbers = {number for of_score in near.values() for number in of_score}
    pictures, views = _views(drawn, sorted(numbers))
    shown: dict[ScoreCall, list[ShownRow]] = {}
    for slider in sliders:
        with_picture = [number for number in near[slider.call] if number in pictures]
        shown[slider.call] = [
            (number, pictures[number], float(slider.lows[number])) for number in with_picture
        ]
    return shown, views


def _views(
    drawn: Sequence[tuple[ShardRecord, SampleTable]], numbers: Sequence[int]
) -> tuple[dict[int, int], list[SampleView]]:
    """Return the views of some rows, read shard by shard, and the number of the view of each row."""
    rows: list[tuple[str, Row]] = []
    for record, samples in drawn:
        rows += [(record.url, row) for row in samples.readable]
    # By shard, and by the offset of the sample in it.
    by_url: dict[str, dict[int, int]] = {}
    for number in numbers:
        url, row = rows[number]
        by_url.setdefault(url, {})[row.start] = number
    views: list[SampleView] = []
    view_of: dict[int, int] = {}
    for url, number_at in by_url.items():
        for start, sample in samples_at(Shard.stored(url), number_at):
            number = number_at[start]
            # Otherwise the shard has changed.
            if sample.key == rows[number][1].key:
                view_of[number] = len(views)
                views.append(view(sample))
    return view_of, views
