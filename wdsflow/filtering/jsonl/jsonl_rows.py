"""The rows of a file of JSON lines, each with its range of bytes."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from wdsflow.shards.caption_field import parse_json
from wdsflow.shards.source.base import Range, Source, SourceError
from wdsflow.stages.scores.score_errors import ScoreError

from .media import MediaRoot
from .media_tokens import MediaChunk, MediaTokens, TokensSeen

_STEP = 1 << 20
_LONGEST = 16 << 20  # bytes of a line


class Media(NamedTuple):
    """The files of a row: (field, path) of images and of videos."""

    images: tuple[tuple[str, str], ...]
    videos: tuple[tuple[str, str], ...]

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """All of them, images first."""
        return self.images + self.videos


class TextRow:
    """A row: the attributes of a tar's sample, and its content."""

    __slots__ = ("chunks", "end", "key", "line", "media", "number", "problem", "start", "text", "trouble")

    def __init__(self, number: int, start: int, end: int, line: bytes) -> None:
        self.number, self.key, self.start, self.end, self.line = number, f"{number:08d}", start, end, line
        self.text = ""
        self.chunks: list[MediaChunk] = []
        self.media = Media((), ())
        self.problem: ScoreError | None = None
        self.trouble = ""  # fault of the file itself; ``problem`` has the fault of a single row

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its fields."""
        captions = ("txt",) if len(self.chunks) == 1 else tuple(f"{number}.txt" for number in range(len(self.chunks)))
        return ("json", *captions, *(field for field, _ in self.media.files))


class TextRows:
    """Iterate over the rows of a file, once, like ``Samples`` over those of a tar.

    Raises SourceError "refused" when the iteration ends, if rows have images or videos but no text has their token:
    such rows prove nothing.
    """

    def __init__(self, source: Source, tokens: MediaTokens, root: MediaRoot) -> None:
        self._source, self._tokens, self._root = source, tokens, root
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

    def filled(self, number: int, start: int, end: int, line: bytes) -> TextRow:
        """Return an earlier row. Raises ScoreError if it cannot be used."""
        row = TextRow(number, start, end, line)
        self._fill(row, TokensSeen(self._tokens))
        return row

    def _fill(self, row: TextRow, seen: TokensSeen) -> None:
        if len(row.line) > _LONGEST:
            raise ScoreError("large-line", f"it has {row.end - row.start:,} bytes; at most {_LONGEST:,} are read")
        try:
            tree = parse_json(row.line)
        except ValueError as error:
            raise ScoreError("bad-json", str(error)) from None
        if not isinstance(tree, dict):
            raise ScoreError("not-an-object", f"a row must be a JSON object, this is a {type(tree).__name__}")
        row.text = tree.get("text") or ""
        if not isinstance(row.text, str):
            raise ScoreError("not-text", f"'text' is a {type(row.text).__name__}")
        images, videos = _paths(tree, "images"), _paths(tree, "videos")
        seen.add(row.text, len(images), len(videos))
        row.chunks = self._tokens.chunks(row.text)
        for what, names, chunks in (
            ("image", images, [chunk.images for chunk in row.chunks]),
            ("video", videos, [chunk.videos for chunk in row.chunks]),
        ):
            count = sum(map(len, chunks))
            if count != len(names):
                raise ScoreError("other-count", f"{count:,} {what} tokens in the text, {len(names):,} {what}s")
        fields = _Fields(len(images) + len(videos))
        row.media = Media(
            tuple((fields.name(name, "jpg"), self._root.path(name)) for name in images),
            tuple((fields.name(name, "mp4"), self._root.path(name)) for name in videos),
        )


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
