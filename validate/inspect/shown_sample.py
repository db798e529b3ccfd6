"""Samples in full: their texts and thumbnails of their images, of one key or at random."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from wdsflow.shards.scratch import scratch
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import IMAGES
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import seekable
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.picture_decoding import decode_picture
from wdsflow.stages.scores.sample_fields import chosen_fields, parse_images
from wdsflow.stages.select import uniform

from .listed_samples import ListedSample, listed_samples

if TYPE_CHECKING:
    from PIL.Image import Image

# Called with each shard that cannot be read, and why.
Problems = Callable[[str, SourceError], None]

# Pixels of the longer side of a thumbnail.
SIDE = 320
_TEXTS = frozenset({"txt", "text", "caption", "json", "jsn", "cls", "label"})
# Bytes of a text that are shown, and characters.
MOST_LETTERS = 4_000
# Bytes of an encoded image.
_MOST_BYTES = 256 << 20
# Bytes of memory for decoding one image.
_BUDGET = 512 << 20
# Samples of one key.
_MOST_SAMPLES = 100


@dataclass
class ShownSample:
    """A sample with its members, texts and thumbnails.

    It also has what a ledger and readers report on it.

    ``images`` has a picture, or the reason why there is none, for each image; ``scores`` are texts
    by name; ``fates`` is what each reader makes of the sample, by its name.
    """

    url: Shard
    listed: ListedSample
    texts: dict[str, str] = field(default_factory=dict)
    images: dict[str, "Image | str"] = field(default_factory=dict)
    # What a filter decided, and why.
    outcome: str = ""
    scores: dict[str, str] = field(default_factory=dict)
    fates: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON, without pictures."""
        return {
            "shard": self.url,
            **self.listed.to_dict(),
            "texts": self.texts,
            "outcome": self.outcome,
            "scores": self.scores,
            "readers": self.fates,
        }


def samples_of_key(
    urls: Sequence[Shard], key: str, problem: Problems, *, allow_pipe: bool = False
) -> Iterator[ShownSample]:
    """Yield the samples of a key, at most 100.

    Each shard that cannot be read is passed to ``problem``, with the reason.
    """
    remaining = _MOST_SAMPLES
    for numbered in _samples(enumerate(urls), problem, allow_pipe=allow_pipe):
        if numbered.sample.key == key and remaining:
            remaining -= 1
            yield _read(urls[numbered.position.shard], numbered)


def random_samples(
    urls: Sequence[Shard], count: int, seed: int, problem: Problems, *, allow_pipe: bool = False
) -> Iterator[ShownSample]:
    """Yield randomly chosen samples of all shards, in the order of the shards.

    The same seed chooses the same samples.

    ``problem`` is called with each shard that cannot be read, and why.
    """
    drawn = (
        (uniform(seed, numbered.sample.key, str(numbered.position.number)), numbered.position)
        for numbered in _samples(enumerate(urls), problem, allow_pipe=allow_pipe)
    )
    picked = {position for _, position in heapq.nsmallest(count, drawn)}
    shards = sorted({(position.shard, urls[position.shard]) for position in picked})
    # Problems: reported above.
    for numbered in _samples(shards, lambda *_: None, allow_pipe=allow_pipe):
        if numbered.position in picked:
            yield _read(urls[numbered.position.shard], numbered)


def score_value_text(value: str) -> str:
    """Return the value of a score for people: numbers have at most six digits.

    >>> score_value_text("0.28123529992770097, 12"), score_value_text("a dog")
    ('0.281235, 12', 'a dog')
    """
    try:
        numbers = [float(part) for part in value.split(", ")]
    except ValueError:
        return value
    return ", ".join(f"{number:.6g}" if number % 1 else f"{number:.0f}" for number in numbers)


class _Position(NamedTuple):
    """Of a sample."""

    # Number of its shard.
    shard: int
    # Its number in the shard.
    number: int


class _NumberedSample(NamedTuple):
    """A sample of an open shard."""

    position: _Position
    sample: ListedSample
    source: Source


def _samples(
    urls: Iterable[tuple[int, Shard]], problem: Problems, *, allow_pipe: bool
) -> Iterator[_NumberedSample]:
    """Yield the samples of numbered shards."""
    for shard, url in urls:
        try:
            with (
                scratch("inspect") as folder,
                seekable(url, folder, allow_pipe=allow_pipe) as (source, _),
            ):
                for number, sample in enumerate(listed_samples(source)):
                    yield _NumberedSample(_Position(shard, number), sample, source)
        except SourceError as error:
            problem(url, error)


def _read(url: Shard, numbered: _NumberedSample) -> ShownSample:
    """Read the texts and images of a sample."""
    sample = numbered.sample
    source = numbered.source
    shown = ShownSample(url, sample)
    images = chosen_fields(parse_images(IMAGES), [name.lower() for name, _, _ in sample.members])
    for name, length, data in sample.members:
        if name.lower() in images:
            shown.images[name] = _thumbnail(source.read_at(data, min(length, _MOST_BYTES)))
        elif name.lower().rpartition(".")[2] in _TEXTS:
            contents = source.read_at(data, min(length, MOST_LETTERS))
            text = contents.decode("utf-8", "surrogateescape")
            shown.texts[name] = f"{text}..." if length > MOST_LETTERS else text
    return shown


def _thumbnail(data: bytes) -> "Image | str":
    """Return a small picture, or why there is none."""
    try:
        picture = decode_picture(data, _BUDGET).image.convert("RGB")
    except ScoreError as error:
        return f"{error.slug}: {error.detail}"
    picture.thumbnail((SIDE, SIDE))
    return picture
