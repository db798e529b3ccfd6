"""Rows of JSON lines as samples: their texts, the tokens that assign images and videos to parts of them, and the files."""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar, NamedTuple

from wdsflow.filtering.recipe.recipe import Recipe, digest
from wdsflow.filtering.samples import Gone, Scored, ShardView
from wdsflow.shards.caption_field import parse_json
from wdsflow.shards.source.base import Range, Source, SourceChangedError, SourceError, local_file, read_fully
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.sample_fields import chosen, parse_images
from wdsflow.stages.scores.sample_view import View, ViewOptions

_AUDIO = "<__dj__audio>"  # ignored, but not part of a caption
_LIKE_A_TOKEN = re.compile(r"<[^<>\s]{1,40}>")
_MOST_KINDS = 1000


class MediaChunk(NamedTuple):
    """A part of a text: its caption, and the indices of its images and videos in the row."""

    caption: str
    images: tuple[int, ...]
    videos: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class MediaTokens:
    """The tokens of a data set, as a value that is passed to all code that reads texts."""

    image: str = "<__dj__image>"
    video: str = "<__dj__video>"
    end: str = "<|__dj__eoc|>"

    def __post_init__(self) -> None:
        """Refuse tokens that cannot be distinguished."""
        tokens = (self.image, self.video, self.end)
        if not all(token.strip() for token in tokens):
            raise ValueError("a special token is empty: it would match everywhere")
        for token, other in permutations(tokens, 2):
            if token in other:
                raise ValueError(f"the special tokens {token!r} and {other!r} cannot be distinguished")

    @staticmethod
    def of(recipe: Recipe) -> "MediaTokens":
        """Return the tokens of a recipe. Raises ValueError."""
        return MediaTokens(image=recipe.image_token, video=recipe.video_token, end=recipe.chunk_end)

    def chunks(self, text: str) -> list[MediaChunk]:
        """Return the chunks of a text in order, without those that have no images, videos or words.

        A chunk ends at each ``end``. If the image token is in it k times, it has the next k images. Its caption is its
        text without tokens, stripped. Source: Data-Juicer's image_text_similarity_filter.
        """
        found, images, videos = [], 0, 0
        for part in text.split(self.end):
            own_images = range(images, images + part.count(self.image))
            own_videos = range(videos, videos + part.count(self.video))
            images, videos = own_images.stop, own_videos.stop
            caption = part
            for token in (self.image, self.video, _AUDIO):
                caption = caption.replace(token, "")
            if (caption := caption.strip()) or own_images or own_videos:
                found.append(MediaChunk(caption, tuple(own_images), tuple(own_videos)))
        return found


class TokensSeen:
    """Counts the tokens in the texts of a file, to report a wrong token instead of silently reading no image."""

    def __init__(self, tokens: MediaTokens) -> None:
        self._tokens = {"image": tokens.image, "video": tokens.video}
        self._own = {*self._tokens.values(), tokens.end}
        self._with = Counter[str]()  # rows with such files
        self._found = Counter[str]()  # rows whose text has the token
        self._like = Counter[str]()

    def add(self, text: str, images: int, videos: int) -> None:
        """Note a row."""
        self._with.update({"image": images > 0, "video": videos > 0})
        self._found.update({name: token in text for name, token in self._tokens.items()})
        if len(self._like) < _MOST_KINDS:
            self._like.update(dict.fromkeys(_LIKE_A_TOKEN.findall(text), 1))

    def problem(self) -> str:
        """Return the problem with the tokens, "" if none."""
        for name, token in self._tokens.items():
            count = self._with[name]
            if count and not self._found[name]:
                others = [like for like, _ in self._like.most_common(8) if like not in self._own][:5]
                there = f"the texts have {', '.join(map(repr, others))}" if others else "none has anything like a token"
                have = f"{count:,} {'row has' if count == 1 else 'rows have'} {name}s"
                return f"{have}, and no text has the token {token!r}; {there}: give the right one with --{name}-token"
        return ""


@dataclass(frozen=True)
class MediaRoot:
    """The folder to which paths are relative. ``absolute``: the user gave it, so absolute paths into it are valid too."""

    folder: str
    absolute: bool = False

    @staticmethod
    def of(url: str, recipe: Recipe) -> "MediaRoot":
        """Return the folder of a file's images: the given one, otherwise the file's own. Raises ValueError."""
        if recipe.media_root:
            return MediaRoot(os.path.expanduser(recipe.media_root), absolute=True)
        path = local_file(url)
        if path is None:
            raise ValueError(f"{url} is on a server: name the folder of its images with --media-root")
        return MediaRoot(os.path.dirname(os.path.abspath(path)))

    def path(self, name: str) -> str:
        """Return the path of a file, with links resolved. Raises ScoreError "outside", "missing-file"."""
        if "\0" in name or not name:
            raise ScoreError("missing-file", f"{name!r} is not a path")
        if os.path.isabs(name) and not self.absolute:
            raise ScoreError(
                "outside", f"{name!r} is an absolute path: name the folder that may be read with --media-root"
            )
        root = os.path.realpath(self.folder)
        path = os.path.realpath(os.path.join(root, name))
        if os.path.commonpath((root, path)) != root:
            raise ScoreError("outside", f"{name!r} is outside of {self.folder}: name another folder with --media-root")
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            raise ScoreError("missing-file", f"{name!r}: {error.strerror}") from None
        if not stat.S_ISREG(mode):
            raise ScoreError("missing-file", f"{name!r} is not a regular file")
        return path


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

    Raises SourceError "refused" when the iteration ends, if rows have images or videos but no text has their token.
    """

    def __init__(self, source: Source, url: str, recipe: Recipe, options: ViewOptions | None = None) -> None:
        self._source, self._tokens, self._root = source, MediaTokens.of(recipe), MediaRoot.of(url, recipe)
        self._options, self._url, self.members = options or ViewOptions(), url, 0
        self.left_out: Counter[str] = Counter()
        self.headers: list[Range] = []
        self.damage: list[str] = []

    def __iter__(self) -> Iterator[TextRow]:
        seen, fault = TokensSeen(self._tokens), self._source.fault
        number = 0
        for start, end, line in _lines(self._source):
            if not line.strip():
                self.left_out["empty line"] += 1
                continue
            row, number = TextRow(number, start, end, line), number + 1
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
        """Return the view of a row. Raises Gone if it is unusable."""
        if row.problem is not None:
            raise Gone(row.problem.slug, row.problem.detail)
        return RowView(row, self._options, self._url)

    def again(self, row: Scored) -> TextRow:
        """Return an earlier row. Raises ScoreError if it cannot be used, SourceChangedError if it no longer exists."""
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
        row.images, row.videos = (
            {_field(path, ending, more, number): self._root.path(path) for number, path in enumerate(paths, first)}
            for paths, ending, first in ((images, "jpg", 0), (videos, "mp4", len(images)))
        )


def _field(path: str, default: str, more: bool, number: int) -> str:
    """Return the field of a row's file: the extension of the file, after a number if the row has more than one."""
    ending = path.rpartition("/")[2].rpartition(".")[2].lower()
    plain = "." in path and ending.isalnum() and ending.isascii() and len(ending) <= 8
    ending = ending if plain and ending not in {"json", "txt"} else default
    return f"{number}.{ending}" if more else ending


def _paths(tree: dict[str, object], name: str) -> list[str]:
    found = tree.get(name) or []
    if not isinstance(found, list) or not all(isinstance(path, str) for path in found):
        raise ScoreError("bad-paths", f"{name!r} is not a list of paths")
    return found


def _lines(source: Source) -> Iterator[tuple[int, int, bytes]]:
    """Yield (start, end, line); of a line that is too long, its first bytes."""
    start, at, held, pieces = 0, 0, 0, list[bytes]()
    while data := source.read_at(at, 1 << 20):
        begin = 0
        while (newline := data.find(b"\n", begin)) >= 0:
            pieces.append(data[begin : newline + 1])
            begin = newline + 1
            yield start, at + begin, b"".join(pieces)
            start, pieces, held = at + begin, [], 0
        at += len(data)
        if held <= _LONGEST:  # drop the rest of a line that is too long
            pieces.append(data[begin:])
            held += len(data) - begin
    if at > start:
        yield start, at, b"".join(pieces)


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
        """Return a hash of path, size and modification time of a field's file. Raises ScoreError if it is missing."""
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
            return read_fully(file, size, start) if size > 0 else b""
        finally:
            os.close(file)


@contextmanager
def _there() -> Iterator[None]:
    """Raise ScoreError if a file is missing."""
    try:
        yield
    except OSError as error:
        raise ScoreError("missing-file", f"{error.strerror}") from None


class RowView(ShardView):
    """A row. Its captions are those of chunks with images or videos, or of all; named fields are found as in tars."""

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
        """Return a hash that changes when a field's file changes."""
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
        return super().pairs(caption, image) if caption else self._pairs("image", self._row.images, image)

    def video_pairs(self, caption: str = "", video: str = "") -> list[tuple[str, tuple[str, ...]]]:
        """Return each chunk's caption with the chunk's videos."""
        return super().video_pairs(caption, video) if caption else self._pairs("video", self._row.videos, video)

    def _pairs(self, what: str, files: Iterable[str], some: str) -> list[tuple[str, tuple[str, ...]]]:
        """Return the captions of chunks with their files of one kind; ``some`` names those that count, "" all."""
        among = set(chosen(parse_images(some), self.fields)) if some else None
        names, found = list(files), []
        for chunk in self._row.chunks:
            places = chunk.images if what == "image" else chunk.videos
            if own := tuple(names[at] for at in places if among is None or names[at] in among):
                found.append((chunk.caption, own))
        if not found:
            raise ScoreError(f"no-{what}", f"no chunk of the text has {'an' if what == 'image' else 'a'} {what}")
        return found
