"""Samples for display: in lists, in full on a console, and on a contact sheet."""

import heapq
import logging
import os
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any

from wdsflow.pages import render
from wdsflow.shards.samples.grouping import grouped
from wdsflow.shards.scratch import scratch
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import IMAGES
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import open_source, seekable
from wdsflow.shards.tar.walk import Walk
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.picture_decoding import decode_picture
from wdsflow.stages.scores.sample_fields import chosen, parse_images
from wdsflow.stages.select import uniform
from wdsflow.text.install import install_extras
from wdsflow.text.shell import escape
from wdsflow.text.words import short, size

from ..report.writer import Writer

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console


@dataclass(slots=True)
class Listed:
    """Neighbouring members that share one key."""

    key: str
    # Offset of the first member's header, bytes from the start of the (uncompressed) tar.
    offset: int
    # field, bytes, offset of its contents.
    members: list[tuple[str, int, int]] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        members = [
            {"field": name, "size": length, "offset": offset}
            for name, length, offset in self.members
        ]
        return {"key": self.key, "offset": self.offset, "members": members}


def first_samples(url: Shard, count: int, *, allow_pipe: bool = False) -> list[Listed]:
    """Return the first ``count`` samples of a shard; fewer, or none, if it cannot be read further."""
    found: list[Listed] = []
    with suppress(SourceError), open_source(url, allow_pipe=allow_pipe) as source:
        # Keeps samples that were read before an error.
        found.extend(islice(listed(source), count))
    return found


def listed(source: Source) -> Iterator[Listed]:
    """Yield the samples of a shard, without their contents. Raises SourceError if it cannot be read further."""
    current: Listed | None = None
    walk = Walk(source)
    for begins, key, field_name, (_, length, data, header, _) in grouped(walk):
        if current is None or begins:
            if current is not None:
                yield current
            current = Listed(key, header)
        current.members.append((field_name, length, data))
    if current is not None:
        yield current
    if walk.stop is not None and walk.stop.kind in ("unreadable", "error"):
        raise SourceError("io", walk.stop.detail)


# Pixels of the longer side of a thumbnail.
SIDE = 320
_TEXTS = frozenset({"txt", "text", "caption", "json", "jsn", "cls", "label"})
# Bytes of a text that are shown, and characters.
_LONGEST = 4_000
# Bytes of an encoded image.
_LARGEST = 256 << 20
# Bytes of memory for decoding one image.
_BUDGET = 512 << 20
# Samples of one key.
_MOST = 100


@dataclass
class ShownSample:
    """A sample: its members, its texts, thumbnails of its images, and its scores.

    ``images`` has a picture, or the reason why there is none, for each image; ``scores`` are texts
    by name.
    """

    url: str
    listed: Listed
    texts: dict[str, str] = field(default_factory=dict)
    images: dict[str, "Image | str"] = field(default_factory=dict)
    scores: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON, without pictures."""
        return {
            "shard": self.url,
            **self.listed.to_dict(),
            "texts": self.texts,
            "scores": self.scores,
        }


Problems = Callable[[str, SourceError], None]


def _samples(
    urls: Iterable[tuple[int, Shard]], problem: Problems, *, allow_pipe: bool
) -> Iterator[tuple[tuple[int, int], Listed, Source]]:
    """Yield the samples of numbered shards, each with the number of its shard, and its own in the shard."""
    for number, url in urls:
        try:
            with (
                scratch("inspect") as folder,
                seekable(url, folder, allow_pipe=allow_pipe) as (source, _),
            ):
                for place, sample in enumerate(listed(source)):
                    yield (number, place), sample, source
        except SourceError as error:
            problem(url, error)


def samples_of_key(
    urls: Sequence[Shard], key: str, problem: Problems, *, allow_pipe: bool = False
) -> Iterator[ShownSample]:
    """Yield the samples of a key, at most 100. ``problem`` is called with each shard that cannot be read, and why."""
    left = _MOST
    for (number, _), sample, source in _samples(enumerate(urls), problem, allow_pipe=allow_pipe):
        if sample.key == key and left:
            left -= 1
            yield _read(urls[number], sample, source)


def some_samples(
    urls: Sequence[Shard], count: int, seed: int, problem: Problems, *, allow_pipe: bool = False
) -> Iterator[ShownSample]:
    """Yield randomly chosen samples of all shards, in the order of the shards. The same seed chooses the same samples.

    ``problem`` is called with each shard that cannot be read, and why.
    """
    drawn = (
        (uniform(seed, sample.key, str(place[1])), place)
        for place, sample, _ in _samples(enumerate(urls), problem, allow_pipe=allow_pipe)
    )
    picked = {place for _, place in heapq.nsmallest(count, drawn)}
    shards = sorted({(number, urls[number]) for number, _ in picked})
    # Problems: reported above.
    for place, sample, source in _samples(shards, lambda *_: None, allow_pipe=allow_pipe):
        if place in picked:
            yield _read(urls[place[0]], sample, source)


def _read(url: str, sample: Listed, source: Source) -> ShownSample:
    shown = ShownSample(url, sample)
    images = chosen(parse_images(IMAGES), [name.lower() for name, _, _ in sample.members])
    for name, length, data in sample.members:
        if name.lower() in images:
            shown.images[name] = _thumbnail(source.read_at(data, min(length, _LARGEST)))
        elif name.lower().rpartition(".")[2] in _TEXTS:
            text = source.read_at(data, min(length, _LONGEST)).decode("utf-8", "surrogateescape")
            shown.texts[name] = text + ("..." if length > _LONGEST else "")
    return shown


def _thumbnail(data: bytes) -> "Image | str":
    try:
        picture = decode_picture(data, _BUDGET).image.convert("RGB")
    except ScoreError as error:
        return f"{error.slug}: {error.detail}"
    picture.thumbnail((SIDE, SIDE))
    return picture


def contact_sheet(samples: Iterable[ShownSample]) -> str:
    """Return an HTML page with the samples."""
    return render(
        "contact_sheet.html", title="wdsflow: contact sheet", samples=[*map(_article, samples)]
    )


def _article(sample: ShownSample) -> dict[str, object]:
    caption = next(
        (text for name, text in sample.texts.items() if name.lower().endswith("txt")), ""
    )
    return {
        "key": sample.listed.key,
        "shard": short(sample.url),
        "about": caption[:200],
        "images": [
            {"name": name, "trouble": picture}
            if isinstance(picture, str)
            else {"name": name, "size": picture.size, "data": _jpeg(picture)}
            for name, picture in sample.images.items()
        ],
        "facts": [
            *sample.texts.items(),
            *((name, brief(value)) for name, value in sample.scores.items()),
        ],
    }


def brief(value: str) -> str:
    """Return the value of a score for people: numbers have at most six digits.

    >>> brief("0.28123529992770097, 12"), brief("a dog")
    ('0.281235, 12', 'a dog')
    """
    try:
        numbers = [float(part) for part in value.split(", ")]
    except ValueError:
        return value
    return ", ".join(f"{number:.6g}" if number % 1 else f"{number:.0f}" for number in numbers)


def _jpeg(picture: "Image") -> str:
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=80)
    return b64encode(buffer.getvalue()).decode("ascii")


# Characters of a picture.
_WIDTH = 40


def show_contents(samples: Iterable[ShownSample], console: "Console") -> int:
    """Print samples, and return how many there were."""
    count, draw, writer = 0, _pictures(console), Writer(console)
    for count, sample in enumerate(samples, 1):  # noqa: B007 - the last number is the result
        writer.heading(
            f"{escape(sample.listed.key, 200)} in {short(sample.url)}, byte {sample.listed.offset:,}"
        )
        for name, length, _ in sample.listed.members:
            writer.line((f"{escape(name, 60)} ", "bold"), _about(sample, name, length), hang=2)
            picture = sample.images.get(name)
            if draw is not None and picture is not None and not isinstance(picture, str):
                draw(picture)
        for name, value in sample.scores.items():
            writer.line((f"{escape(name, 200)} ", "dim"), escape(brief(value), 500), hang=2)
    return count


def _about(sample: ShownSample, name: str, length: int) -> str:
    if name in sample.texts:
        return escape(sample.texts[name], _LONGEST)
    picture = sample.images.get(name)
    return f"{size(length)}{f', no picture: {escape(picture, 300)}' if isinstance(picture, str) else ''}"


def _pictures(console: "Console") -> Callable[["Image"], None] | None:
    """Return the function that prints a picture; None without a terminal that can be queried and show it."""
    if not (console.is_terminal and _can_query_terminal()):
        return None
    # It warns if the terminal does not report its font.
    logging.getLogger("textual_image").setLevel(logging.ERROR)
    try:
        # On import it queries the terminal, and waits up to 0.1 s for each answer.
        from textual_image.renderable import Image as Renderable
    except ImportError:
        console.print(
            f"to see pictures here: {install_extras('pictures')}", soft_wrap=True, markup=False
        )
        return None

    def draw(picture: "Image") -> None:
        renderable: Any = Renderable(picture, width=_WIDTH)
        console.print(renderable)

    return draw


def _can_query_terminal() -> bool:
    """Return whether the terminal can be queried: that would stop a process in the background."""
    with suppress(OSError, ValueError, AttributeError):
        there = os.environ.get("TERM", "dumb") != "dumb" and all(
            stream.isatty() for stream in (sys.__stdin__, sys.__stdout__) if stream is not None
        )
        return there and os.get_terminal_size(1).columns > 0 and os.tcgetpgrp(0) == os.getpgrp()
    return False
