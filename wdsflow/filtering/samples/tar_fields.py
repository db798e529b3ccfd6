"""Samples of a shard as the input of scores, read in place."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from wdsflow.images.header import ImageHeader
from wdsflow.images.image_header import read_header
from wdsflow.shards.samples.tar_sample import TarSample
from wdsflow.stages.base import SampleStage
from wdsflow.stages.scores.base import HeaderScore, Score, TextScore, Value
from wdsflow.stages.scores.sample_fields import FieldNames, chosen, parse_captions
from wdsflow.stages.scores.sample_view import View, ViewOptions

from .staged_samples import Lying, Staging

if TYPE_CHECKING:
    from wdsflow.shards.samples.tar_samples import Samples

_HEAD = 4096  # bytes; nearly all headers fit
_PLAIN = frozenset(("jpeg", "png", "webp"))  # for these one read of the first bytes is enough
_CAPTION = 4096  # bytes; longer ones take the general path

Chosen = tuple[str | None, str | None]  # the only image, the only caption; None: use the general path
_CAREFUL: Chosen = None, None


class TarFields:
    """The fields of the latest sample of a shard: names, sizes, ranges of bytes."""

    __slots__ = ("rows", "samples")

    def __init__(self, samples: "Samples", sample: TarSample) -> None:
        self.samples, self.rows = samples, sample.fields

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __contains__(self, name: object) -> bool:
        return name in self.rows

    def size(self, name: str) -> int:
        """Return the size of a field in bytes."""
        return self.rows[name][1]

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return a part of a field. Raises OSError if the disk fails."""
        return self.samples.read(self.rows[name], start, size)


class StagedFields(TarFields):
    """The fields of the latest sample after stages."""

    __slots__ = ("_found",)

    def __init__(self, samples: "Samples", sample: TarSample, found: Mapping[str, Lying | bytes]) -> None:
        super().__init__(samples, sample)
        self._found = found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def size(self, name: str) -> int:
        """Return the size of a field in bytes."""
        value = self._found[name]
        return value.row[1] if isinstance(value, Lying) else len(value)

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return a part of a field. Raises OSError if the disk fails."""
        value = self._found[name]
        if isinstance(value, Lying):
            return self.samples.read(value.row, start, size)
        return value[start : start + size]


class ShardView(View):
    """A ``View`` with a fast path for nearly all samples: one image, one short caption.

    The result is the same; all other samples take the general path.
    """

    __slots__ = ("_caption", "_chosen", "_header", "_rows", "_samples")

    def __init__(self, fields: TarFields, choice: Chosen, options: ViewOptions, key: str, url: str) -> None:
        super().__init__(fields, options, key=key, url=url)
        self._chosen, self._rows, self._samples = choice, fields.rows, fields.samples
        self._header: ImageHeader | None = None
        self._caption: str | None = None

    def plain_header(self) -> ImageHeader | None:
        """Return the header of the only image, None if that takes more than one look."""
        header = self._header
        if header is None and (name := self._chosen[0]) is not None:
            _, size, data, _, _ = self._rows[name]
            most = min(size, _HEAD)
            head = self._samples.glance(data, most)
            header = read_header(head)
            if len(head) < most and (header is None or not header.width or header.format != "jpeg"):
                head = self._samples.peek(data, most)  # in a JPEG, bytes after the size do not matter
                header = read_header(head)
            if header is None or not header.width or header.format not in _PLAIN or header.needs > len(head):
                return None
            self._header = header
            self.bytes_read += len(head)
        return header

    def plain_caption(self) -> str | None:
        """Return the only caption, None if it is long or not plain."""
        text = self._caption
        if text is None and (name := self._chosen[1]) is not None:
            _, size, start, _, _ = self._rows[name]
            if size <= _CAPTION:
                data = self._samples.peek(start, size)
                if size and data.isascii() and len(data) == size and data[0]:
                    self._caption = text = data.decode()
                    self.bytes_read += size
        return text

    def headers(self, image: str = "") -> list[ImageHeader]:
        """Return the images' headers, from their first few KiB, without decoding."""
        header = None if image else self.plain_header()
        return super().headers(image) if header is None else [header]

    def captions(self, caption: str = "") -> list[str]:
        """Return the captions. Never empty."""
        text = None if caption else self.plain_caption()
        return super().captions(caption) if text is None else [text]


def way_of(score: Score) -> Callable[[ShardView], Value]:
    """Return a function that computes a score, with a fast path for nearly all samples."""
    careful: Callable[[View], Value] = score.score
    if isinstance(score, HeaderScore) and type(score).score is HeaderScore.score and not score.image:
        of_header = score.of

        def by_header(view: ShardView) -> Value:
            header = view.plain_header()
            return careful(view) if header is None else of_header(header)

        return by_header
    if isinstance(score, TextScore) and type(score).score is TextScore.score and not score.caption:
        of_text = score.of

        def by_caption(view: ShardView) -> Value:
            text = view.plain_caption()
            return careful(view) if text is None else of_text(text)

        return by_caption
    return careful


class Views:
    """Makes the views of a shard's samples."""

    def __init__(self, samples: "Samples", options: ViewOptions, url: str, stages: Sequence[SampleStage] = ()) -> None:
        self._samples, self._options, self._url = samples, options, url
        self._staging = Staging(stages, samples, url) if stages else None
        self._places = parse_captions(options.captions)
        self._known: dict[tuple[str, ...], tuple[tuple[str, ...], Chosen]] = {}

    def fields_of(self, sample: TarSample) -> tuple[str, ...]:
        """Return the names of a sample's fields; the same tuple for the same names."""
        return self._of(sample)[0]

    def view(self, sample: TarSample) -> ShardView:
        """Return the view of the latest sample, after the stages. Raises Gone."""
        if self._staging is not None:
            staged = StagedFields(self._samples, sample, self._staging.fields(sample))
            return ShardView(staged, _CAREFUL, self._options, sample.key, self._url)
        return ShardView(TarFields(self._samples, sample), self._of(sample)[1], self._options, sample.key, self._url)

    def _of(self, sample: TarSample) -> tuple[tuple[str, ...], Chosen]:
        names = sample.names or tuple(sample.fields)
        found = self._known.get(names)
        if found is None:
            images = chosen(self._options.names, names)
            place = self._places[0]
            captions = chosen(place, names) if isinstance(place, FieldNames) else ()
            choice = images[0] if len(images) == 1 else None, captions[0] if len(captions) == 1 else None
            found = names, choice
            if len(self._known) < 10_000:
                self._known[names] = found
        return found
