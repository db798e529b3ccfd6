"""The samples that are read before a run to check the inputs of its recipe.

The check is that captions and values in json are where the recipe looks for them.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from typing import NamedTuple

from wdsflow.filtering.joined_samples import JoinedSamples
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.samples.shard_view import ShardView
from wdsflow.filtering.samples.staging import RejectedSample
from wdsflow.filtering.samples.views import Views
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.scratch import scratch
from wdsflow.shards.shard import Shard
from wdsflow.shards.short_look import spread_selection
from wdsflow.shards.source.base import Source
from wdsflow.shards.source.opening import open_source, seekable
from wdsflow.stages.scores.sample_view import ViewOptions

# Shards whose first samples are surveyed, and samples of each.
_SURVEYED, _SAMPLES = 3, 100


class SearchScope(NamedTuple):
    """How many samples and shards were searched, and whether these are all."""

    samples: int
    shards: int
    is_all: bool

    @property
    def nothing_found_subject(self) -> str:
        """The subject of a message about a search without result."""
        return "no sample" if self.is_all else "none of the checked samples"


def spread_shards(urls: Sequence[Shard]) -> list[Shard]:
    """Return shards to check: first, last, middle, then the others in order."""
    some = spread_selection(urls)
    order = dict.fromkeys((0, len(some) - 1, len(some) // 2, *range(len(some))))
    return [some[number] for number in order]


def first_samples(
    urls: Sequence[Shard], recipe: Recipe, *, allow_pipe: bool, join: JoinedSamples | None = None
) -> Iterator[ShardView]:
    """Yield the first samples of three shards, after the stages of a recipe."""
    for url in spread_shards(urls)[:_SURVEYED]:
        samples = all_samples(url, recipe, allow_pipe=allow_pipe, join=join)
        with suppress(OSError), closing(samples) as views:
            yield from islice(views, _SAMPLES)


def all_samples(
    url: Shard, recipe: Recipe, *, allow_pipe: bool, join: JoinedSamples | None = None
) -> Generator[ShardView, None, None]:
    """Yield the readable samples of a shard, after the stages of a recipe.

    Raises OSError.
    """
    options = ViewOptions(images=recipe.image)
    with _opened(url, join, allow_pipe=allow_pipe) as source:
        samples = Samples(source, contents=False)
        views = Views(samples, options, url, recipe.stages)
        for sample in samples:
            if not sample.trouble:
                with suppress(RejectedSample):
                    yield views.view(sample)


@contextmanager
def _opened(url: Shard, join: JoinedSamples | None, *, allow_pipe: bool) -> Iterator[Source]:
    """Open a shard, with the fields of a table if one is joined."""
    if join is None:
        with open_source(url, allow_pipe=allow_pipe) as source:
            yield source
        return
    # The samples are listed before the first is read.
    with (
        scratch("join") as folder,
        seekable(url, folder, allow_pipe=allow_pipe) as (stored, _),
    ):
        yield join.joined_view(stored, url)
