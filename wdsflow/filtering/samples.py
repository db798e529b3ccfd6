"""The samples of a tar as scores see them: read from the tar, changed by stages."""

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

# Bytes of an image; nearly all headers fit.
_HEADER_BYTES = 4096
# Formats for which one read of the first bytes is enough.
_PLAIN = frozenset(("jpeg", "png", "webp"))
# Bytes of a caption; longer ones take the general path.
_SHORT_CAPTION = 4096

# The only image and the only caption of a sample; None: use the general path.
Chosen = tuple[str | None, str | None]
_GENERAL: Chosen = None, None
# Sets of field names whose choice is cached.
_MOST_CACHED = 10_000
# Prefix of the trouble of a sample that a stage dropped.
DROPPED = "dropped by "
# Bytes of a text; the stages' own limits are lower.
_LARGEST_TEXT = 17 << 20


class RejectedSample(Exception):
    """A sample that a stage dropped, or could not handle. ``trouble`` is the reason in its row."""

    def __init__(self, trouble: str, detail: str = "") -> None:
        super().__init__(trouble)
        self.trouble, self.detail = trouble, detail


class StoredMember(NamedTuple):
    """A member of the tar, which is read when it is needed."""

    field: str
    row: Row


# Of the tar, or new bytes.
MemberContent = StoredMember | bytes


class Staging:
    """Passes samples of a shard through stages."""

    def __init__(self, stages: Sequence[SampleStage], samples: Samples, url: str) -> None:
        self._samples, self._url = samples, url
        self._stages = [
            (f"stage {number} {stage.name}", stage) for number, stage in enumerate(stages, 1)
        ]

    def __bool__(self) -> bool:
        return bool(self._stages)

    def fields(self, sample: TarSample) -> dict[str, MemberContent]:
        """Return the fields of the latest sample: members of the tar, bytes that were read, and new text.

        Raises RejectedSample, OSError.
        """
        fields: Sample = {name: StoredMember(name, row) for name, row in sample.fields.items()}
        fields |= {"__key__": sample.key, "__url__": self._url}
        for label, stage in self._stages:
            try:
                self._read(stage, fields)
                fields = stage.apply(fields)
                for name, value in fields.items():
                    if isinstance(value, str) and name not in {"__key__", "__url__"}:
                        fields[name] = value.encode()
            except Dropped as drop:
                raise RejectedSample(f"{DROPPED}{label}: {drop.reason}") from None
            except UnicodeEncodeError:
                raise RejectedSample(
                    f"{label}: not-text", "it has half a surrogate pair, which is not text"
                ) from None
            except StageError as error:
                if stage.on_error == "drop":
                    raise RejectedSample(f"{DROPPED}{label}: {error.slug}", str(error)) from None
                raise RejectedSample(f"{label}: {error.slug}", str(error)) from None
        del fields["__key__"], fields["__url__"]
        if not fields:
            raise RejectedSample(f"{DROPPED}{self._stages[-1][0]}: no field is left")
        return fields

    def _read(self, stage: SampleStage, fields: Sample) -> None:
        """Read the fields whose contents a stage needs."""
        names: Iterable[str] = ()
        if isinstance(stage, CleanText):
            names = stage.field.split(";")
        elif isinstance(stage, JsonText) and not (
            stage.on_target == "keep" and stage.target in fields
        ):
            names = (stage.source,)
        for name in names:
            value = fields.get(name)
            if not isinstance(value, StoredMember):
                continue
            size = value.row[1]
            if size > _LARGEST_TEXT:
                raise StageError("large-text", f"{name!r} has {size:,} bytes")
            data = self._samples.read(value.row)
            fields[name] = data
            if len(data) < size:
                raise StageError(
                    "unread", f"{len(data):,} of the {size:,} bytes of {name!r} could be read"
                )


def pieces_of(
    sample: TarSample, fields: Mapping[str, MemberContent], samples: Samples
) -> Iterator[Piece]:
    """Yield the parts of a sample after its stages: ranges of the tar, and new bytes.

    A member that no stage changed stays in place, as do all bytes between members.
    """
    start = sample.start
    unchanged = {
        name for name, value in fields.items() if _is_unchanged(name, value, sample, samples)
    }
    new = {name: value for name, value in fields.items() if name not in unchanged}
    for field, row in sorted(sample.fields.items(), key=lambda item: item[1][3]):
        if field in fields and field not in new:
            continue
        _, size, data, header, _ = row
        yield start, header
        names = [field] if field in new else _new_names(new, field)
        for name in names:
            yield from _member(f"{sample.key}.{name}", new.pop(name))
        start = data + padded(size)
    yield start, sample.end
    for name, value in new.items():
        yield from _member(f"{sample.key}.{name}", value)


def _new_names(new: Mapping[str, MemberContent], field: str) -> list[str]:
    """Return the new names of a member of the tar."""
    members = {name: value for name, value in new.items() if isinstance(value, StoredMember)}
    return [name for name, value in members.items() if value.field == field]


def _is_unchanged(name: str, value: MemberContent, sample: TarSample, samples: Samples) -> bool:
    row = sample.fields.get(name)
    if row is None:
        return False
    if isinstance(value, StoredMember):
        return value.field == name
    return len(value) == row[1] and samples.read(row) == value


def _member(name: str, value: MemberContent) -> Iterator[Piece]:
    if isinstance(value, StoredMember):
        yield from moved(name, value.row[2], value.row[1])
    else:
        yield member(name, value)


class TarFields:
    """The fields of the latest sample of a shard: names, sizes, ranges of bytes. ``staged``: those after its stages."""

    __slots__ = ("_fields", "rows", "samples")

    def __init__(
        self, samples: Samples, sample: TarSample, staged: Mapping[str, MemberContent] | None = None
    ) -> None:
        self.samples, self.rows = samples, sample.fields
        self._fields: Mapping[str, Row | MemberContent] = self.rows if staged is None else staged

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def size(self, name: str) -> int:
        """Return the size of a field in bytes."""
        value = self._fields[name]
        return len(value) if isinstance(value, bytes) else _row_of(value)[1]

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return a part of a field. Raises OSError if the disk fails."""
        value = self._fields[name]
        if isinstance(value, bytes):
            return value[start : start + size]
        return self.samples.read(_row_of(value), start, size)


def _row_of(value: Row | StoredMember) -> Row:
    return value.row if isinstance(value, StoredMember) else value


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
            most = min(size, _HEADER_BYTES)
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
            if size <= _SHORT_CAPTION:
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


def method_of(score: Score) -> Callable[[ShardView], Value]:
    """Return a function that computes a score, with a fast path for nearly all samples."""
    general: Callable[[View], Value] = score.score
    if (
        isinstance(score, HeaderScore)
        and type(score).score is HeaderScore.score
        and not score.image
    ):
        of_header = score.of

        def by_header(view: ShardView) -> Value:
            header = view.plain_header()
            return general(view) if header is None else of_header(header)

        return by_header
    if isinstance(score, TextScore) and type(score).score is TextScore.score and not score.caption:
        of_text = score.of

        def by_caption(view: ShardView) -> Value:
            text = view.plain_caption()
            return general(view) if text is None else of_text(text)

        return by_caption
    return general


class Views:
    """Makes the views of a shard's samples."""

    def __init__(
        self, samples: Samples, options: ViewOptions, url: str, stages: Sequence[SampleStage] = ()
    ) -> None:
        self._samples, self._options, self._url = samples, options, url
        self._staging = Staging(stages, samples, url) if stages else None
        self._captions = parse_captions(options.captions)
        self._cached: dict[tuple[str, ...], tuple[tuple[str, ...], Chosen]] = {}
        # Of the latest sample.
        self._last: tuple[tuple[str, ...], Chosen] = (), _GENERAL

    def fields_of(self, sample: TarSample) -> tuple[str, ...]:
        """Return the names of a sample's fields; the same tuple for the same names."""
        return self._of(sample)[0]

    def view(self, sample: TarSample) -> ShardView:
        """Return the view of the latest sample, after the stages. Raises RejectedSample."""
        if self._staging is not None:
            staged = TarFields(self._samples, sample, self._staging.fields(sample))
            return ShardView(staged, _GENERAL, self._options, sample.key, self._url)
        return ShardView(
            TarFields(self._samples, sample),
            self._of(sample)[1],
            self._options,
            sample.key,
            self._url,
        )

    def _of(self, sample: TarSample) -> tuple[tuple[str, ...], Chosen]:
        """Return the names of a sample's fields, and its only image and caption."""
        names = sample.names or tuple(sample.fields)
        if names is self._last[0]:
            return self._last
        entry = self._cached.get(names)
        if entry is None:
            entry = names, self._choice(names)
            if len(self._cached) < _MOST_CACHED:
                self._cached[names] = entry
        self._last = entry
        return entry

    def _choice(self, names: tuple[str, ...]) -> Chosen:
        """Return the only image and the only caption of a sample with these fields."""
        images = chosen(self._options.names, names)
        first = self._captions[0]
        captions = chosen(first, names) if isinstance(first, FieldNames) else ()
        image = images[0] if len(images) == 1 else None
        caption = captions[0] if len(captions) == 1 else None
        return image, caption
