"""webdataset 0.2, up to the release that OpenCLIP pins, and 1.x."""

from typing import ClassVar

from wdsflow.scan.shapes import Shape
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .base import (
    KEY,
    LOCAL_PATH,
    MARKED_BAD,
    URL,
    USABLE,
    Fate,
    Reader,
    Sample,
    fate_of_incomplete,
    first_of,
    first_repeat,
    is_marked_bad,
)
from .url_schemes import why_not_opened_by_webdataset_02, why_not_opened_by_webdataset_1
from .wanted_fields import IMAGES, OTHERS, PICKLES, TEXTS, decoding_raises, reason_for

_CAPTION = "txt"


class WebDataset1(Reader):
    """webdataset 1.x: ``WebDataset(urls, ...)``, decoded with Pillow, as image and text.

    The full call is ``WebDataset(urls,
    shardshuffle=False).decode("pil").to_tuple("jpg;png;jpeg;webp", "txt")``.

    With the default handlers every error is raised, also for shards that hold no sample at all. A
    mark at the end of each shard keeps samples of different shards apart.

    Cannot be known here: what a pickled field does (taken as valid); pipelines with custom
    handlers.

    Source: webdataset 1.0.2, compat.py, tariterators.py, autodecode.py, filters.py.
    """

    name = "webdataset-1"
    title = "webdataset 1.x (default handlers)"
    takes_stages = True
    empty_raises = True
    decoded: ClassVar[frozenset[str]] = IMAGES | TEXTS | OTHERS | PICKLES | {"pkl"}
    # Of an npz, not only the file.
    loads_arrays: ClassVar[bool] = True
    # Set with the first member of a sample from a local file.
    path_field: ClassVar[str] = LOCAL_PATH

    def why_not_opened(self, url: Shard) -> str:
        """Return why webdataset has no handler for a url."""
        return why_not_opened_by_webdataset_1(url)

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run."""
        repeat = first_repeat(shape, (KEY, URL), lower=True)
        repeat = repeat or next(
            (part for part in shape[1:] if part.suffix.lower() == self.path_field), None
        )
        if repeat is not None:
            return (Fate("crash", "group", "duplicate-field", repeat.suffix),)
        sample: Sample = {
            part.suffix.lower(): part._replace(suffix=part.suffix.lower()) for part in shape
        }
        return (MARKED_BAD if is_marked_bad(sample) else self._fate(sample),)

    def _fate(self, sample: Sample) -> Fate:
        image = first_of(IMAGE_FIELDS, sample)
        for part in sample.values():
            if part.suffix.startswith("__"):
                continue
            if decoding_raises(part, self.decoded, loads_arrays=self.loads_arrays):
                return Fate("crash", "decode", reason_for(part, image, _CAPTION), part.suffix)
        return (
            USABLE
            if image and _CAPTION in sample
            else fate_of_incomplete(image, _CAPTION in sample, "crash")
        )


class WebDataset02(WebDataset1):
    """webdataset 0.2.86 or older: ``WebDataset(urls)``, decoded with Pillow, as image and text.

    The full call is ``WebDataset(urls).decode("pil").to_tuple("jpg;png;jpeg;webp", "txt")``.

    Every error is raised, as in 1.x. Nothing marks the end of a shard: an open sample continues in
    the next shard if that begins with the same key, so that shards of one sample each, or with keys
    that begin at 0 again, raise for a field that occurs twice. Shards without a sample end
    silently.

    Source: webdataset 0.2.86, compat.py, tariterators.py, autodecode.py, filters.py.
    """

    name = "webdataset-0.2"
    title = "webdataset 0.2 (<= 0.2.86, default handlers)"
    empty_raises = False
    decoded = WebDataset1.decoded - {"pkl"}
    loads_arrays = False
    # Up to 0.2.88.
    joins = True
    # No other field is set.
    path_field = URL

    def why_not_opened(self, url: Shard) -> str:
        """Return why webdataset has no handler for a url."""
        return why_not_opened_by_webdataset_02(url)
