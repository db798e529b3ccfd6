"""Single samples with their contents: those of a key, or some that chance picks."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

from wdsflow.mapping.scratch import scratch
from wdsflow.shards.shard_names import IMAGES
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import seekable
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.pixels import decode_picture
from wdsflow.stages.scores.sample_fields import chosen, parse_images
from wdsflow.stages.select import uniform

from .listing import Listed, listed

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 320  # pixels of the longer side of a thumbnail
_TEXTS = frozenset({"txt", "text", "caption", "json", "jsn", "cls", "label"})
_LONGEST = 4_000  # bytes of a text that are shown
_LARGEST = 256 << 20  # bytes of an encoded image
_BUDGET = 512 << 20  # bytes of memory for decoding one image
_MOST = 100  # samples of one key


@dataclass
class ShownSample:
    """A sample: its members, its texts, thumbnails of its images, and its scores.

    ``images`` has a picture, or the reason why there is none, for each image; ``scores`` are texts by name.
    """

    url: str
    listed: Listed
    texts: dict[str, str] = field(default_factory=dict)
    images: dict[str, "Image | str"] = field(default_factory=dict)
    scores: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without pictures."""
        return {"shard": self.url, **self.listed.to_dict(), "texts": self.texts, "scores": self.scores}


Problems = Callable[[str, SourceError], None]


def samples_of_key(
    urls: Sequence[str], key: str, problem: Problems, *, allow_pipe: bool = False
) -> Iterator[ShownSample]:
    """Yield the samples of a key, at most 100. ``problem`` is called with each shard that cannot be read, and why."""
    left = _MOST
    for url in urls:
        try:
            with scratch("inspect") as folder, seekable(url, folder, allow_pipe=allow_pipe) as (source, _):
                for sample in listed(source):
                    if sample.key == key and left:
                        left -= 1
                        yield _read(url, sample, source)
        except SourceError as error:
            problem(url, error)


def some_samples(
    urls: Sequence[str], count: int, seed: int, problem: Problems, *, allow_pipe: bool = False
) -> Iterator[ShownSample]:
    """Yield samples that chance picks from all shards, in the order of the shards. The same seed picks the same.

    ``problem`` is called with each shard that cannot be read, and why.
    """

    def all_of_them() -> Iterator[tuple[float, int, int]]:
        for number, url in enumerate(urls):
            try:
                with scratch("inspect") as folder, seekable(url, folder, allow_pipe=allow_pipe) as (source, _):
                    for place, sample in enumerate(listed(source)):
                        yield uniform(seed, sample.key, str(place)), number, place
            except SourceError as error:
                problem(url, error)

    picked: dict[int, set[int]] = {}
    for _, number, place in heapq.nsmallest(count, all_of_them()):
        picked.setdefault(number, set()).add(place)
    for number, places in sorted(picked.items()):
        try:
            with scratch("inspect") as folder, seekable(urls[number], folder, allow_pipe=allow_pipe) as (source, _):
                for place, sample in enumerate(listed(source)):
                    if place in places:
                        yield _read(urls[number], sample, source)
        except SourceError:  # reported above
            continue


def _read(url: str, sample: Listed, source: Source) -> ShownSample:
    shown = ShownSample(url, sample)
    images = chosen(parse_images(IMAGES), [name.lower() for name, _, _ in sample.members])
    for name, size, data in sample.members:
        if name.lower() in images:
            shown.images[name] = _thumbnail(source.read_at(data, min(size, _LARGEST)))
        elif name.lower().rpartition(".")[2] in _TEXTS:
            text = source.read_at(data, min(size, _LONGEST)).decode("utf-8", "surrogateescape")
            shown.texts[name] = text + ("..." if size > _LONGEST else "")
    return shown


def _thumbnail(data: bytes) -> "Image | str":
    try:
        picture = decode_picture(data, _BUDGET).image.convert("RGB")
    except ScoreError as error:
        return f"{error.slug}: {error.detail}"
    picture.thumbnail((SIDE, SIDE))
    return picture


def jpeg(picture: "Image") -> bytes:
    """Return a picture as JPEG."""
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()
