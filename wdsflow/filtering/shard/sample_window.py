"""Samples of a shard that are decided together."""

from collections.abc import Sequence
from functools import lru_cache

from wdsflow.filtering.deciding.program import Program, Seen
from wdsflow.filtering.recipe.recipe import Recipe

# A query takes 1 to 2 ms, so that it should be for many samples.
_MOST_SAMPLES = 4096
# A decoded image has up to 1 MB.
_MOST_DECODED = 64
_MOST_BYTES = 16 << 20
# The fields that may be large, besides images.
_TEXTS = ("json", "txt")
_FIRST_SAMPLES = 8
# A window that takes no longer may be followed by a larger one.
_QUICK_SECONDS = 0.2


class WindowSize:
    """How many samples of a recipe this process decides together.

    It begins with few, so that scores which take long soon show progress, and grows fourfold while a window is quick.
    """

    def __init__(self) -> None:
        self.samples = _FIRST_SAMPLES

    def took(self, seconds: float) -> None:
        """Take the time of a window into account."""
        if seconds < _QUICK_SECONDS:
            self.samples = min(4 * self.samples, _MOST_SAMPLES)


@lru_cache(maxsize=4)
def window_size_of(recipe: Recipe) -> WindowSize:
    """Return the size for a recipe: a process keeps it from shard to shard."""
    del recipe
    return WindowSize()


class SampleWindow:
    """Samples that are decided together. Its memory is bounded: images and texts that are read are held until then.

    How many there are changes no result, because each is decided by itself.
    """

    def __init__(self, program: Program, size: WindowSize) -> None:
        self._size = size
        self._decodes = program.reads_contents()
        self._most = _MOST_DECODED if self._decodes else _MOST_SAMPLES
        self._samples: list[Seen] = []
        self._bytes = 0

    def add(self, sample: Seen) -> None:
        """Add the next sample."""
        self._samples.append(sample)
        if self._decodes:
            self._bytes += sample.row.end - sample.row.start
            return
        members = sample.view.members
        for name in _TEXTS:
            if name in members:
                self._bytes += members[name][1]

    @property
    def full(self) -> bool:
        """Whether the samples should be decided now."""
        count = len(self._samples)
        return count >= self._size.samples or count >= self._most or self._bytes >= _MOST_BYTES

    def take(self) -> Sequence[Seen]:
        """Return the samples, and begin the next window."""
        taken, self._samples, self._bytes = self._samples, [], 0
        return taken
