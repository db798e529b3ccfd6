"""The samples of a tar as scores see them: read in place, changed by stages."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from wdsflow.filtering.predicates.values import Value
from wdsflow.images.header import ImageHeader
from wdsflow.images.image_header import read_header
from wdsflow.pieces.tar_members import member, moved
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.source.base import Piece
from wdsflow.shards.tar.plain_entries import Row
from wdsflow.shards.tar.tar_header import padded
from wdsflow.stages.base import Dropped, Sample, SampleStage, StageError
from wdsflow.stages.caption_text import CleanText, JsonText
from wdsflow.stages.scores.base import HeaderScore, Score, TextScore
from wdsflow.stages.scores.sample_fields import FieldNames, chosen, parse_captions
from wdsflow.stages.scores.sample_view import View, ViewOptions

# Prefix of the trouble of a sample that a stage dropped.
DROPPED = "dropped by "
# Bytes of a text; the stages' own limits are lower.
_LARGEST = 17 << 20


class Gone(Exception):
    """A sample that a stage dropped, or could not handle. ``trouble`` is the reason in its row."""

    def __init__(self, trouble: str, detail: str = "") -> None:
        super().__init__(trouble)
        self.trouble, self.detail = trouble, detail


class Lying(NamedTuple):
    """A member in the tar."""

    field: str
    row: Row


# In the tar, or new.
Member = Lying | bytes


class Staging:
    """Passes samples of a shard through stages."""

    def __init__(self, stages: Sequence[SampleStage], samples: Samples, url: str) -> None:
        self._samples, self._url = samples, url
        self._stages = [
            (f"stage {number} {stage.name}", stage) for number, stage in enumerate(stages, 1)
        ]

    def __bool__(self) -> bool:
        return bool(self._stages)

    def fields(self, sample: TarSample) -> dict[str, Member]:
        """Return the fields of the latest sample: ``Lying`` members, bytes that were read, and new text.

        Raises Gone, OSError.
        """
        found: Sample = {name: Lying(name, row) for name, row in sample.fields.items()}
        found |= {"__key__": sample.key, "__url__": self._url}
        for place, stage in self._stages:
            try:
                self._read(stage, found)
                found = stage.apply(found)
                for name, value in found.items():
                    if isinstance(value, str) and name not in {"__key__", "__url__"}:
                        found[name] = value.encode()
            except Dropped as drop:
                raise Gone(f"{DROPPED}{place}: {drop.reason}") from None
            except UnicodeEncodeError:
                raise Gone(
                    f"{place}: not-text", "it has half a surrogate pair, which is not text"
                ) from None
            except StageError as error:
                if stage.on_error == "drop":
                    raise Gone(f"{DROPPED}{place}: {error.slug}", str(error)) from None
                raise Gone(f"{place}: {error.slug}", str(error)) from None
        del found["__key__"], found["__url__"]
        if not found:
            raise Gone(f"{DROPPED}{self._stages[-1][0]}: no field is left")
        return found

    def _read(self, stage: SampleStage, found: Sample) -> None:
        """Read the fields whose contents a stage needs."""
        looked_at: Iterable[str] = ()
        if isinstance(stage, CleanText):
            looked_at = stage.field.split(";")
        elif isinstance(stage, JsonText):
            looked_at = (
                (stage.source,) if stage.on_target != "keep" or stage.target not in found else ()
            )
        for name in looked_at:
            value = found.get(name)
            if isinstance(value, Lying):
                size = value.row[1]
                if size > _LARGEST:
                    raise StageError("large-text", f"{name!r} has {size:,} bytes")
                found[name] = self._samples.read(value.row)
                if len(found[name]) < size:
                    raise StageError(
                        "unread",
                        f"{len(found[name]):,} of the {size:,} bytes of {name!r} could be read",
                    )


def pieces_of(sample: TarSample, found: Mapping[str, Member], samples: Samples) -> Iterator[Piece]:
    """Yield the parts of a sample after its stages: ranges of the tar, and new bytes.

    A member that no stage changed stays in place, as do all bytes between members.
    """
    at = sample.start
    new = {
        name: value for name, value in found.items() if not _as_it_was(name, value, sample, samples)
    }
    for field, row in sorted(sample.fields.items(), key=lambda item: item[1][3]):
        if field in found and field not in new:
            continue
        _, size, data, start, _ = row
        yield at, start
        moved = [
            name for name, value in new.items() if isinstance(value, Lying) and value.field == field
        ]
        for name in [field] if field in new else moved:
            yield from _member(f"{sample.key}.{name}", new.pop(name))
        at = data + padded(size)
    yield at, sample.end
    for name, value in new.items():
        yield from _member(f"{sample.key}.{name}", value)


def _as_it_was(name: str, value: Member, sample: TarSample, samples: Samples) -> bool:
    row = sample.fields.get(name)
    if row is None:
        return False
    if isinstance(value, Lying):
        return value.field == name
    return len(value) == row[1] and samples.read(row) == value


def _member(name: str, value: Member) -> Iterator[Piece]:
    if isinstance(value, Lying):
        yield from moved(name, value.row[2], value.row[1])
    else:
        yield member(name, value)


# Bytes; nearly all headers fit.
_HEAD = 4096
# Formats for which one read of the first bytes is enough.
_PLAIN = frozenset(("jpeg", "png", "webp"))
# Bytes; longer ones take the general path.
_CAPTION = 4096

# The only image, the only caption; None: use the general path.
Chosen = tuple[str | None, str | None]
_CAREFUL: Chosen = None, None


class TarFields:
    """The fields of the latest sample of a shard: names, sizes, ranges of bytes. ``found``: those after its stages."""

    __slots__ = ("_found", "rows", "samples")

    def __init__(
        self, samples: Samples, sample: TarSample, found: Mapping[str, Member] | None = None
    ) -> None:
        self.samples, self.rows = samples, sample.fields
        self._found: Mapping[str, Row | Member] = self.rows if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def size(self, name: str) -> int:
        """Return the size of a field in bytes."""
        value = self._found[name]
        return len(value) if isinstance(value, bytes) else _row_of(value)[1]

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return a part of a field. Raises OSError if the disk fails."""
        value = self._found[name]
        if isinstance(value, bytes):
            return value[start : start + size]
        return self.samples.read(_row_of(value), start, size)


def _row_of(value: Row | Lying) -> Row:
    return value.row if isinstance(value, Lying) else value


class ShardView(View):
    """A ``View`` with a fast path for nearly all samples: one image, one short caption.

    The result is the same; all other samples take the general path.
    """

    __slots__ = ("_caption", "_chosen", "_header", "_samples", "members")

    def __init__(
        self, fields: TarFields, choice: Chosen, options: ViewOptions, key: str, url: str
    ) -> None:
        super().__init__(fields, options, key=key, url=url)
        self._chosen, self._samples = choice, fields.samples
        # Those of the tar, before stages.
        self.members = fields.rows
        self._header: ImageHeader | None = None
        self._caption: str | None = None

    def plain_header(self) -> ImageHeader | None:
        """Return the header of the only image, None if it needs more than one read."""
        header = self._header
        if header is None and (name := self._chosen[0]) is not None:
            _, size, data, _, _ = self.members[name]
            most = min(size, _HEAD)
            head = self._samples.glance(data, most)
            header = read_header(head)
            if len(head) < most and (header is None or not header.width or header.format != "jpeg"):
                # In a JPEG, bytes after the size do not matter.
                head = self._samples.peek(data, most)
                header = read_header(head)
            if (
                header is None
                or not header.width
                or header.format not in _PLAIN
                or header.needs > len(head)
            ):
                return None
            self._header = header
            self.bytes_read += len(head)
        return header

    def plain_caption(self, *, in_memory: bool = False) -> str | None:
        """Return the only caption, None if it is long or not plain. ``in_memory``: and None if it has to be read."""
        text = self._caption
        if text is None and (name := self._chosen[1]) is not None:
            _, size, start, _, _ = self.members[name]
            if size <= _CAPTION:
                data = (
                    self._samples.glance(start, size)
                    if in_memory
                    else self._samples.peek(start, size)
                )
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
    if (
        isinstance(score, HeaderScore)
        and type(score).score is HeaderScore.score
        and not score.image
    ):
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

    def __init__(
        self, samples: Samples, options: ViewOptions, url: str, stages: Sequence[SampleStage] = ()
    ) -> None:
        self._samples, self._options, self._url = samples, options, url
        self._staging = Staging(stages, samples, url) if stages else None
        self._places = parse_captions(options.captions)
        self._known: dict[tuple[str, ...], tuple[tuple[str, ...], Chosen]] = {}
        # Of the latest sample.
        self._last: tuple[tuple[str, ...], Chosen] = (), _CAREFUL

    def fields_of(self, sample: TarSample) -> tuple[str, ...]:
        """Return the names of a sample's fields; the same tuple for the same names."""
        return self._of(sample)[0]

    def view(self, sample: TarSample) -> ShardView:
        """Return the view of the latest sample, after the stages. Raises Gone."""
        if self._staging is not None:
            staged = TarFields(self._samples, sample, self._staging.fields(sample))
            return ShardView(staged, _CAREFUL, self._options, sample.key, self._url)
        return ShardView(
            TarFields(self._samples, sample),
            self._of(sample)[1],
            self._options,
            sample.key,
            self._url,
        )

    def _of(self, sample: TarSample) -> tuple[tuple[str, ...], Chosen]:
        names = sample.names or tuple(sample.fields)
        if names is self._last[0]:
            return self._last
        found = self._known.get(names)
        if found is None:
            images = chosen(self._options.names, names)
            place = self._places[0]
            captions = chosen(place, names) if isinstance(place, FieldNames) else ()
            choice = (
                images[0] if len(images) == 1 else None,
                captions[0] if len(captions) == 1 else None,
            )
            found = names, choice
            if len(self._known) < 10_000:
                self._known[names] = found
        self._last = found
        return found
