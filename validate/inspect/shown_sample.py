"""Samples as they are shown: in lists, one in full, and on a sheet of pictures."""

import heapq
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any

from wdsflow.mapping.scratch import scratch
from wdsflow.pages import render
from wdsflow.shards.samples.grouping import grouped
from wdsflow.shards.shard_names import IMAGES
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import open_source, seekable
from wdsflow.shards.tar.walk import Walk
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.pixels import decode_picture
from wdsflow.stages.scores.sample_fields import chosen, parse_images
from wdsflow.stages.select import uniform
from wdsflow.text.words import short

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(slots=True)
class Listed:
    """Neighbouring members that share one key."""

    key: str
    offset: int  # offset of the first member's header, bytes from the start of the (uncompressed) tar
    members: list[tuple[str, int, int]] = field(default_factory=list)  # field, bytes, offset of its contents

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        members = [{"field": name, "size": size, "offset": offset} for name, size, offset in self.members]
        return {"key": self.key, "offset": self.offset, "members": members}


def first_samples(url: str, count: int, *, allow_pipe: bool = False) -> list[Listed]:
    """Return the first ``count`` samples of a shard; fewer, or none, if it cannot be read further.

    Args:
        url: url of the shard.
        count: number of samples.
        allow_pipe: run a ``pipe:`` url in a shell.
    """
    found: list[Listed] = []
    try:
        with open_source(url, allow_pipe=allow_pipe) as source:
            for sample in islice(listed(source), count):
                found.append(sample)  # noqa: PERF402 - what was read before an error counts
    except SourceError:
        pass
    return found


def listed(source: Source) -> Iterator[Listed]:
    """Yield the samples of a shard, contents unread. Raises SourceError where it cannot be read further."""
    current: Listed | None = None
    walk = Walk(source)
    for begins, key, field_name, (_, size, data, header, _) in grouped(walk):
        if current is None or begins:
            if current is not None:
                yield current
            current = Listed(key, header)
        current.members.append((field_name, size, data))
    if current is not None:
        yield current
    if walk.stop is not None and walk.stop.kind in ("unreadable", "error"):
        raise SourceError("io", walk.stop.detail)


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


def contact_sheet(samples: Iterable[ShownSample]) -> str:
    """Return the page."""
    return render("contact_sheet.html", title="wdsflow: contact sheet", samples=[*map(_article, samples)])


def _article(sample: ShownSample) -> dict[str, Any]:
    caption = next((text for name, text in sample.texts.items() if name.lower().endswith("txt")), "")
    return {
        "key": sample.listed.key,
        "shard": short(sample.url),
        "about": caption[:200],
        "images": [
            {"name": name, "trouble": picture}
            if isinstance(picture, str)
            else {"name": name, "size": picture.size, "data": b64encode(jpeg(picture)).decode("ascii")}
            for name, picture in sample.images.items()
        ],
        "facts": [*sample.texts.items(), *sample.scores.items()],
    }
