"""Samples of a shard that are decided together."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter

from wdsflow.filtering.deciding.direct_scores import ViewedSample
from wdsflow.filtering.deciding.plan import FilterPlan
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.shards.samples.tar_samples import TarSample
from wdsflow.shards.shard_names import IMAGE_FIELDS

# A query takes 1 to 2 ms, so that it should be for many samples.
_MOST_SAMPLES = 4096
# A decoded image has up to 1 MB.
_MOST_DECODED = 64
_MOST_BYTES = 16 << 20
_FIRST_SAMPLES = 8
_end_of = attrgetter("end")
# A window that takes no longer may be followed by a larger one.
_QUICK_SECONDS = 0.2


class WindowSize:
    """How many samples of a recipe this process decides together.

    It begins with few, so that scores which take long soon show progress, and grows fourfold while
    a window is quick.
    """

    def __init__(self) -> None:
        self.samples = _FIRST_SAMPLES

    def adapt_to(self, samples: int, seconds: float) -> None:
        """Take the time of a window into account.

        The last window of a shard may be short, and says nothing.
        """
        if samples >= self.samples and seconds < _QUICK_SECONDS:
            self.samples = min(4 * self.samples, _MOST_SAMPLES)


@lru_cache(maxsize=4)
def window_size_of(recipe: Recipe) -> WindowSize:
    """Return the size for a recipe: a process keeps it from shard to shard."""
    del recipe
    return WindowSize()


class SampleWindow:
    """Samples that are decided together.

    The memory is bounded: images and texts that are read are held until the decision.

    How many there are changes no result, because each is decided by itself.

    Attributes:
        seconds: what the first scores of its samples took.
    """

    def __init__(self, plan: FilterPlan, size: WindowSize) -> None:
        self._size = size
        self._reads_contents = plan.reads_contents()
        self._most = _MOST_DECODED if plan.holds_images else _MOST_SAMPLES
        self._samples: list[ViewedSample] = []
        self._bytes = 0
        self.seconds = 0.0

    def parts(self, samples: Sequence[TarSample]) -> Iterator[Sequence[TarSample]]:
        """Yield neighbouring samples in parts that the window has room for.

        A part has at most 16 MB of the tar.
        """
        at = 0
        while at < len(samples):
            room = min(self._size.samples, self._most) - len(self._samples)
            stop = bisect_right(
                samples,
                samples[at].start + _MOST_BYTES,
                at,
                min(at + room, len(samples)),
                key=_end_of,
            )
            stop = max(stop, at + 1)
            yield samples[at:stop]
            at = stop

    def add(self, samples: Sequence[ViewedSample], seconds: float) -> None:
        """Add the next samples, whose first scores took ``seconds``."""
        self._samples += samples
        self.seconds += seconds
        if self._reads_contents:
            self._bytes += sum(row.end - row.start for row, _ in samples)
            return
        # Of images only the header is read; what else a
        # score reads, such as captions and json, is held.
        for row, view in samples:
            for name in _text_fields(row.fields):
                self._bytes += view.members[name][1]

    @property
    def is_full(self) -> bool:
        """Whether the samples should be decided now."""
        count = len(self._samples)
        return count >= self._size.samples or count >= self._most or self._bytes >= _MOST_BYTES

    def take_all(self) -> Sequence[ViewedSample]:
        """Return the samples, and begin the next window."""
        samples, self._samples, self._bytes = self._samples, [], 0
        self.seconds = 0.0
        return samples


@lru_cache(maxsize=64)
def _text_fields(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields of a sample that are not images."""
    return tuple(name for name in fields if name not in IMAGE_FIELDS)
