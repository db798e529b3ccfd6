"""The rows of a file of JSON lines, each with its range of bytes, and the files that they name."""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.samples.shard_kind import Scored
from wdsflow.shards.caption_field import parse_json
from wdsflow.shards.samples.tar_sample import Range
from wdsflow.shards.source.base import Source, SourceChangedError, SourceError, local_file
from wdsflow.stages.scores.score_errors import ScoreError

from .media_tokens import MediaChunk, MediaTokens, TokensSeen

_STEP = 1 << 20
_LONGEST = 16 << 20  # bytes of a line


def tokens_of(recipe: Recipe) -> MediaTokens:
    """Return the special tokens of a recipe. Raises ValueError."""
    return MediaTokens(image=recipe.image_token, video=recipe.video_token, end=recipe.chunk_end)


@dataclass(frozen=True)
class MediaRoot:
    """The folder to which paths are relative. ``absolute``: the user gave it, so absolute paths into it are valid too."""

    folder: str
    absolute: bool = False

    @staticmethod
    def of(url: str, recipe: Recipe) -> "MediaRoot":
        """Return the folder of a file's images: the given one, otherwise that of the file. Raises ValueError."""
        if recipe.media_root:
            return MediaRoot(os.path.expanduser(recipe.media_root), absolute=True)
        path = local_file(url)
        if path is None:
            raise ValueError(f"{url} is on a server: name the folder of its images with --media-root")
        return MediaRoot(os.path.dirname(os.path.abspath(path)))

    def path(self, name: str) -> str:
        """Return the path of a file, links resolved. Raises ScoreError "outside", "missing-file"."""
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

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its fields."""
        return ("json", *self.captions, *self.images, *self.videos)


class TextRows:
    """Iterate over the rows of a file, once, like ``Samples`` over those of a tar.

    Raises SourceError "refused" when the iteration ends, if rows have images or videos but no text has their token:
    such rows prove nothing.
    """

    def __init__(self, source: Source, url: str, recipe: Recipe) -> None:
        self._source, self._tokens, self._root = source, tokens_of(recipe), MediaRoot.of(url, recipe)
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
        fields = _Fields(len(images) + len(videos))
        found = {fields.name(name, "jpg"): self._root.path(name) for name in images}
        row.videos = {fields.name(name, "mp4"): self._root.path(name) for name in videos}
        row.images = found


class _Fields:
    """Names the fields of a row's files: by number, with the extension of the file."""

    def __init__(self, count: int) -> None:
        self._alone, self._next = count == 1, 0

    def name(self, path: str, default: str) -> str:
        ending = path.rpartition("/")[2].rpartition(".")[2].lower()
        plain = "." in path and ending.isalnum() and ending.isascii() and len(ending) <= 8
        ending = ending if plain and ending not in {"json", "txt"} else default
        self._next += 1
        return ending if self._alone else f"{self._next - 1}.{ending}"


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
