"""The rows of a file of JSON lines: as samples, each with its range of bytes, and as the input of scores."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from wdsflow.filtering.recipe.recipe import Recipe, digest
from wdsflow.filtering.samples.shard_kind import Scored
from wdsflow.filtering.samples.staged_samples import Gone
from wdsflow.filtering.samples.tar_fields import ShardView
from wdsflow.shards.caption_field import parse_json
from wdsflow.shards.source.base import Range, Source, SourceChangedError, SourceError
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.sample_fields import chosen, parse_images
from wdsflow.stages.scores.sample_view import View, ViewOptions

from .media import MediaChunk, MediaRoot, MediaTokens, TokensSeen

_STEP = 1 << 20
_LONGEST = 16 << 20  # bytes of a line


class TextRow:
    """A row: the attributes of a tar's sample, and its content.

    ``captions``, ``images`` and ``videos`` hold its fields other than "json": the texts of chunks, and paths of files.
    """

    __slots__ = (
        "captions", "chunks", "end", "images", "key", "line", "number", "problem", "start", "trouble", "videos",
    )  # fmt: skip

    def __init__(self, number: int, start: int, end: int, line: bytes) -> None:
        self.number, self.key, self.start, self.end, self.line = number, f"{number:08d}", start, end, line
        self.chunks: list[MediaChunk] = []
        self.captions: dict[str, str] = {}
        self.images: dict[str, str] = {}
        self.videos: dict[str, str] = {}
        self.problem: ScoreError | None = None
        self.trouble = ""  # fault of the file itself; ``problem`` has the fault of a single row


class TextRows:
    """Iterate over the rows of a file, once, like ``Samples`` over those of a tar, and make their views, like ``Views``.

    Raises SourceError "refused" when the iteration ends, if rows have images or videos but no text has their token:
    such rows prove nothing.
    """

    def __init__(self, source: Source, url: str, recipe: Recipe, options: ViewOptions | None = None) -> None:
        self._source, self._tokens, self._root = source, MediaTokens.of(recipe), MediaRoot.of(url, recipe)
        self._options, self._url = options or ViewOptions(), url
        self.members = 0
        self.left_out: Counter[str] = Counter()
        self.headers: list[Range] = []
        self.damage: list[str] = []

    def __iter__(self) -> Iterator[TextRow]:
        seen, fault = TokensSeen(self._tokens), self._source.fault
        for number, (start, end, line) in enumerate(_lines(self._source, self.left_out)):
            row = TextRow(number, start, end, line)
            if fault is not None and end > fault.trusted:
                row.trouble = "beside-damage"
            self.members += 1
            try:
                self._fill(row, seen)
            except ScoreError as error:
                row.problem = error
            yield row
        if fault is not None:
            self.damage.append(str(fault))
        elif self._source.cut:
            self.damage.append(self._source.damage or "")
        if problem := seen.problem():
            raise SourceError("refused", problem)

    def fields_of(self, row: TextRow) -> tuple[str, ...]:
        """Return the names of a row's fields."""
        return ("json", *row.captions, *row.images, *row.videos)

    def view(self, row: TextRow) -> "RowView":
        """Return the view of a row. Raises Gone if it cannot be looked at."""
        if row.problem is not None:
            raise Gone(row.problem.slug, row.problem.detail)
        return RowView(row, self._options, self._url)

    def again(self, row: Scored) -> TextRow:
        """Return an earlier row. Raises ScoreError if it cannot be used, SourceChangedError if it is not there."""
        line = self._source.read_at(row.start, row.end - row.start)
        if len(line) != row.end - row.start:
            raise SourceChangedError
        found = TextRow(row.number, row.start, row.end, line)
        self._fill(found, TokensSeen(self._tokens))
        return found

    def _fill(self, row: TextRow, seen: TokensSeen) -> None:
        if len(row.line) > _LONGEST:
            raise ScoreError("large-line", f"it has {row.end - row.start:,} bytes; at most {_LONGEST:,} are read")
        try:
            tree = parse_json(row.line)
        except ValueError as error:
            raise ScoreError("bad-json", str(error)) from None
        if not isinstance(tree, dict):
            raise ScoreError("not-an-object", f"a row must be a JSON object, this is a {type(tree).__name__}")
        text = tree.get("text") or ""
        if not isinstance(text, str):
            raise ScoreError("not-text", f"'text' is a {type(text).__name__}")
        images, videos = _paths(tree, "images"), _paths(tree, "videos")
        seen.add(text, len(images), len(videos))
        row.chunks = chunks = self._tokens.chunks(text)
        names = ["txt"] if len(chunks) == 1 else [f"{number}.txt" for number in range(len(chunks))]
        row.captions = {name: chunk.caption for name, chunk in zip(names, chunks, strict=True)}
        for what, paths, count in (
            ("image", images, sum(len(chunk.images) for chunk in chunks)),
            ("video", videos, sum(len(chunk.videos) for chunk in chunks)),
        ):
            if count != len(paths):
                raise ScoreError("other-count", f"{count:,} {what} tokens in the text, {len(paths):,} {what}s")
        more = len(images) + len(videos) > 1
        found = {_field(path, "jpg", more, number): self._root.path(path) for number, path in enumerate(images)}
        numbered = enumerate(videos, len(images))
        row.videos = {_field(path, "mp4", more, number): self._root.path(path) for number, path in numbered}
        row.images = found


def _field(path: str, default: str, more: bool, number: int) -> str:
    """Return the field of a row's file: the extension of the file, after a number if the row has more than one."""
    ending = path.rpartition("/")[2].rpartition(".")[2].lower()
    plain = "." in path and ending.isalnum() and ending.isascii() and len(ending) <= 8
    ending = ending if plain and ending not in {"json", "txt"} else default
    return f"{number}.{ending}" if more else ending


def _paths(tree: dict[str, Any], name: str) -> list[str]:
    found = tree.get(name) or []
    if not isinstance(found, list) or not all(isinstance(path, str) for path in found):
        raise ScoreError("bad-paths", f"{name!r} is not a list of paths")
    return found


def _lines(source: Source, left_out: Counter[str]) -> Iterator[tuple[int, int, bytes]]:
    """Yield (start, end, line); of a line that is too long, its first bytes. Empty lines are counted and left out."""
    start, at, held, pieces = 0, 0, 0, list[bytes]()
    while data := source.read_at(at, _STEP):
        begin = 0
        while (newline := data.find(b"\n", begin)) >= 0:
            pieces.append(data[begin : newline + 1])
            end, line = at + newline + 1, b"".join(pieces)
            pieces, held, begin = [], 0, newline + 1
            if line.strip():
                yield start, end, line
            else:
                left_out["empty line"] += 1
            start = end
        at += len(data)
        if held <= _LONGEST:  # drop the rest of a line that is too long
            pieces.append(data[begin:])
            held += len(data) - begin
    if at > start:
        line = b"".join(pieces)
        if line.strip():
            yield start, at, line
        else:
            left_out["empty line"] += 1


class RowFields:
    """The fields of a row: "json" is its line, captions are those of its chunks, images and videos are files."""

    def __init__(self, row: TextRow) -> None:
        captions = {name: text.encode("utf-8", "surrogatepass") for name, text in row.captions.items()}
        self._found: dict[str, bytes | str] = {"json": row.line, **captions, **row.images, **row.videos}

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def size(self, name: str) -> int:
        """Return the size of a field in bytes. Raises ScoreError if its file is missing."""
        found = self._found[name]
        if isinstance(found, bytes):
            return len(found)
        with _there():
            return os.stat(found).st_size

    def state(self, name: str) -> str:
        """Return a hash of path, size and time of change of a field's file. Raises ScoreError if it is missing."""
        found = self._found[name]
        if isinstance(found, bytes):
            return ""
        with _there():
            now = os.stat(found)
        return digest([found, now.st_size, now.st_mtime_ns])

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return a part of a field. Raises ScoreError if its file is missing, OSError if the disk fails."""
        found = self._found[name]
        if isinstance(found, bytes):
            return found[start : start + size]
        with _there():
            file = os.open(found, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            parts = []
            while size > 0 and (data := os.pread(file, size, start)):
                parts.append(data)
                start, size = start + len(data), size - len(data)
        finally:
            os.close(file)
        return b"".join(parts)


@contextmanager
def _there() -> Iterator[None]:
    """Raise ScoreError if a file is missing."""
    try:
        yield
    except OSError as error:
        raise ScoreError("missing-file", f"{error.strerror}") from None


class RowView(ShardView):
    """A row: a caption for each chunk that has images or videos, each with its own images.

    A row without any has the captions of all its chunks. Fields that a score names are looked up as in tars.
    """

    of_data_juicer: ClassVar[bool] = True

    __slots__ = ("_files", "_row")

    def __init__(self, row: TextRow, options: ViewOptions, url: str) -> None:
        self._files = RowFields(row)
        View.__init__(self, self._files, options, key=row.key, url=url)
        self._row = row
        self._chosen, self._header, self._caption = (None, None), None, None

    def image_names(self, image: str = "") -> tuple[str, ...]:
        """Return all images of the row, in order; ``image`` names some of them."""
        names = tuple(self._row.images)
        return super().image_names(image) if image or not names else names

    def video_names(self, video: str = "") -> tuple[str, ...]:
        """Return all videos of the row, in order; ``video`` names some of them."""
        names = tuple(self._row.videos)
        return super().video_names(video) if video or not names else names

    def state(self, name: str) -> str:
        """Return a hash that changes with a field's file."""
        return self._files.state(name)

    def captions(self, caption: str = "") -> list[str]:
        """Return a caption for each chunk that has images or videos; for all chunks if none has any."""
        chunks = self._row.chunks
        if caption or not chunks:
            return super().captions(caption)
        return [chunk.caption for chunk in chunks if chunk.images or chunk.videos] or [
            chunk.caption for chunk in chunks
        ]

    def pairs(self, caption: str = "", image: str = "") -> list[tuple[str, tuple[str, ...]]]:
        """Return each chunk's caption with the chunk's images."""
        if caption:
            return super().pairs(caption, image)
        found = self._pairs(self._row.images, [chunk.images for chunk in self._row.chunks], image)
        if not found:
            raise ScoreError("no-image", "no chunk of the text has an image")
        return found

    def video_pairs(self, caption: str = "", video: str = "") -> list[tuple[str, tuple[str, ...]]]:
        """Return each chunk's caption with the chunk's videos."""
        if caption:
            return super().video_pairs(caption, video)
        found = self._pairs(self._row.videos, [chunk.videos for chunk in self._row.chunks], video)
        if not found:
            raise ScoreError("no-video", "no chunk of the text has a video")
        return found

    def _pairs(
        self, files: Iterable[str], by_chunk: Sequence[tuple[int, ...]], some: str
    ) -> list[tuple[str, tuple[str, ...]]]:
        """Return the captions of chunks with their files of one kind; ``some`` names those that count, "" all."""
        among = set(chosen(parse_images(some), self.fields)) if some else None
        names = list(files)
        own = (tuple(names[at] for at in each if among is None or names[at] in among) for each in by_chunk)
        return [(chunk.caption, each) for chunk, each in zip(self._row.chunks, own, strict=True) if each]
