"""The pictures that a page shows next to its sliders, read from the shards."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.sample_table import SampleTable
from wdsflow.pages.page_samples import samples_at
from wdsflow.pages.sample_views import SampleView, sample_view
from wdsflow.records.run_folder import ShardRecord
from wdsflow.shards.shard import Shard

from .near_samples import near_samples
from .predicate_parts import PredicateParts
from .sliders import Slider, SliderPicture

# Pictures of a page, and of one slider.
_MOST_PICTURES = 400
_MOST_OF_SLIDER = 48


def near_pictures(
    shards: Sequence[tuple[ShardRecord, SampleTable]],
    sliders: Sequence[Slider],
    start: PredicateParts,
) -> tuple[dict[ScoreCall, list[SliderPicture]], list[SampleView]]:
    """Return the pictures of each slider, and the views that they refer to.

    The pictures of a slider are in the order of its score.

    A sample whose shard has changed, or cannot be read, has no picture.

    Args:
        shards: the samples of the page; the sliders have a value for each readable one.
        sliders: the numeric scores of these samples.
        start: the thresholds around which pictures are shown.
    """
    most = min(_MOST_OF_SLIDER, _MOST_PICTURES // max(len(sliders), 1))
    rows_of = {slider.call: near_samples(slider, start, most) for slider in sliders}
    all_rows = set().union(*rows_of.values())
    view_by_row = _read_views(shards, sorted(all_rows))

    views = list(view_by_row.values())
    picture_of = {row: number for number, row in enumerate(view_by_row)}
    pictures: dict[ScoreCall, list[SliderPicture]] = {}
    for slider in sliders:
        pictures[slider.call] = [
            SliderPicture(row, picture_of[row], float(slider.lows[row]))
            for row in rows_of[slider.call]
            if row in picture_of
        ]
    return pictures, views


def _read_views(
    shards: Iterable[tuple[ShardRecord, SampleTable]], row_numbers: Iterable[int]
) -> dict[int, SampleView]:
    """Return the views of some rows by their numbers, read shard by shard."""
    rows = [(record.url, row) for record, samples in shards for row in samples.readable]
    # url -> offset of the sample in this shard -> number of its row.
    numbers_by_url: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for number in row_numbers:
        url, row = rows[number]
        numbers_by_url[url][row.start] = number

    views: dict[int, SampleView] = {}
    for url, number_at in numbers_by_url.items():
        for offset, sample in samples_at(Shard.from_text(url), number_at):
            number = number_at[offset]
            _, row = rows[number]
            # Another key: the shard was written again since the run.
            if sample.key == row.key:
                views[number] = sample_view(sample)
    return views
