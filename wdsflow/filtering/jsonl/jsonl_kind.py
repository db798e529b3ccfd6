"""Files of JSON lines as a kind of shards, written as files of lines, or as tars with the images of the rows."""

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.samples import Scored, ShardKind, WrittenTars
from wdsflow.filtering.where.values import Unknown
from wdsflow.memory.sizes import parse_size
from wdsflow.pieces.pieces import END, address, member, moved
from wdsflow.pieces.tar_view import JoinedSource
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.atomic import write_json_lines
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import LocalSource, Piece, Source, SourceChangedError, SourceError
from wdsflow.shards.tar.tar_header import BLOCK, padded
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.sample_view import ViewOptions

from .jsonl_rows import MediaRoot, MediaTokens, TextRow, TextRows

_NAME = re.compile(r"([^/]*)\.jsonl(\.gz|\.zst|\.bz2|\.xz)?")
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_PART = re.compile(r"(.+)-[0-9]{6}\.tar", re.DOTALL)


def stem_of(url: str) -> str | None:
    """Return the base name of a file of JSON lines without extensions, None for other files.

    >>> stem_of("data/train.jsonl.zst"), stem_of("https://host/a.jsonl?x=1"), stem_of("data/train.tar")
    ('train', 'a', None)
    """
    if url.startswith("pipe:"):
        return None
    found = _NAME.fullmatch((url.partition("?")[0] if "://" in url else url).rpartition("/")[2])
    return found and found[1]


class JsonLines(ShardKind):
    """Files of JSON lines: the kept rows are copied, with their scores in a file next to them.

    Its lines are {"__dj__stats__": {score: value}}, as Data-Juicer writes it, without values that could not be
    computed or were not needed.
    """

    noun, ending, reasons = "a file of JSON lines", ".jsonl", ".reasons.jsonl"
    is_tar = by_fields = False

    def check(self, urls: Sequence[str], names: Sequence[str], recipe: Recipe) -> None:
        """Refuse options for tars, invalid tokens, and files without a folder of images."""
        MediaTokens.of(recipe)
        for url in urls:
            MediaRoot.of(url, recipe)
        if recipe.stages:
            raise ValueError(f"stages change the members of tars: {urls[0]} is not a tar")
        if recipe.resize:
            raise ValueError(f"--resize changes the images in tars: {urls[0]} is not a tar")

    def opened(
        self, source: Source, url: str, recipe: Recipe, options: ViewOptions, *, contents: bool
    ) -> tuple[Any, Any]:
        """Return the rows of a file, which also create their views."""
        rows = TextRows(source, url, recipe, options)
        return rows, rows

    def outputs(self, path: Path) -> list[Path]:
        """Return the kept rows and their scores."""
        return [path, path.with_suffix(".stats.jsonl")]

    def write_beside(self, path: Path, source: Source, url: str, recipe: Recipe, kept: Sequence[Scored]) -> WrittenTars:
        """Write the scores."""
        known = ({str(call): it for call, it in row.values.items() if not isinstance(it, Unknown)} for row in kept)
        write_json_lines(self.outputs(path)[1], ({"__dj__stats__": values} for values in known))
        return {}


class _Member(NamedTuple):
    name: str
    data: bytes | str  # or the path of a file
    size: int


class LinesToTars(JsonLines):
    """Files of JSON lines: the kept rows are written as tars: ``NAME-000000.tar`` and so on."""

    def check(self, urls: Sequence[str], names: Sequence[str], recipe: Recipe) -> None:
        """Also refuse limits that are too small, and names that would be written twice."""
        super().check(urls, names, recipe)
        _most_of(recipe)
        known = set(names)
        for name in names:
            made = _PART.fullmatch(name)
            if made and f"{made[1]}{self.ending}" in known:
                raise ValueError(
                    f"{made[1]}{self.ending} and {name} would both write {name}: filter one of them into another folder"
                )

    def outputs(self, path: Path) -> list[Path]:
        """Return the existing tars."""
        return sorted(path.parent.glob(f"{glob.escape(path.stem)}-{'[0-9]' * 6}.tar"))

    def quarantine_uncopyable(self, source: Source, url: str, recipe: Recipe, kept: Iterable[Scored]) -> None:
        """Quarantine rows as "missing-file", "empty-file" or "not-text"."""
        texts = TextRows(source, url, recipe)
        for row in kept:
            try:
                text = texts.again(row)
                "".join(text.captions.values()).encode()
                for path in (*text.images.values(), *text.videos.values()):
                    with _opened(path) as file:
                        if not file.length:
                            row.quarantine("empty-file", f"{os.path.basename(path)!r} is empty")
            except ScoreError as error:
                row.quarantine(error.slug, error.detail)
            except UnicodeEncodeError:
                row.quarantine("not-text", "it has half a surrogate pair, which is not text")
            except OSError as error:
                row.quarantine("missing-file", f"{error.strerror}: {os.path.basename(error.filename or '')!r}")

    def write_beside(self, path: Path, source: Source, url: str, recipe: Recipe, kept: Sequence[Scored]) -> WrittenTars:
        """Write each tar atomically; one tar even if no row is kept.

        The key is the name of the output and the row's number. Members: the unchanged row (``json``), its captions
        without tokens, one line each (``txt``), and its files by their type (``jpg``). The field of the first is its
        extension alone, which trainers find; further ones of that extension, or of any other kind of image, are
        ``1.jpg`` and so on. Raises OSError, SourceError if a file changed meanwhile.
        """
        texts, parts = TextRows(source, url, recipe), WrittenTars()
        samples = ([*_members(path.stem, row.key, _read(texts, row))] for row in kept)
        for number, group in groupby(_numbered(samples, *_most_of(recipe)), itemgetter(0)):
            _write_tar(_part(path, number), map(itemgetter(1), group), parts)
        if not parts:
            _write_tar(_part(path, 0), (), parts)
        return parts


def _most_of(recipe: Recipe) -> tuple[int, int]:
    """Return the limits of a tar in samples and in bytes, which a single sample may exceed. Raises ValueError."""
    if recipe.tar_samples < 1:
        raise ValueError(f"--tar-samples must be at least 1, not {recipe.tar_samples}")
    return recipe.tar_samples, parse_size(recipe.tar_size)


def _part(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number:06d}.tar")


def _numbered(samples: Iterable[list[_Member]], most: int, largest: int) -> Iterator[tuple[int, list[_Member]]]:
    """Yield samples with the numbers of their tars."""
    number, count, total = 0, 0, len(END)
    for members in samples:
        size = sum(BLOCK + padded(each.size) for each in members)
        if count and (count >= most or total + size > largest):
            number, count, total = number + 1, 0, len(END)
        count, total = count + 1, total + size
        yield number, members


def _write_tar(path: Path, samples: Iterable[list[_Member]], parts: WrittenTars) -> None:
    files: list[_Member] = []
    count = 0

    def pieces() -> Iterator[Piece]:
        nonlocal count
        for members in samples:
            count += 1
            for each in members:
                if isinstance(each.data, bytes):
                    yield member(each.name, each.data)
                else:
                    files.append(each)
                    yield from moved(each.name, address(len(files) - 1, 0), each.size)

    with JoinedSource(lambda number: _unchanged(files[number]), lambda _: 1) as source:
        write_pieces(path, source, pieces())
    parts[path.name] = {"samples": count, **fingerprint(str(path))}


def _read(texts: TextRows, row: Scored) -> TextRow:
    """Read a row again. Raises SourceError if it or its files no longer exist."""
    try:
        return texts.again(row)
    except ScoreError as error:
        raise SourceChangedError(f"row {row.number}: {error.detail}") from None


def _members(stem: str, key: str, text: TextRow) -> Iterator[_Member]:
    key = f"{_ODD.sub('_', stem)}-{key}"
    taken: set[str] = set()
    for files in (text.images, text.videos):
        for number, (field, path) in enumerate(files.items()):
            ending = field.rpartition(".")[2]
            ending = f"{len(taken)}.{ending}" if number or ending in taken else ending
            taken.add(ending)
            yield _Member(f"{key}.{ending}", path, _size(path))
    caption = "\n".join(filter(None, text.captions.values()))
    if caption:
        data = caption.encode()
        yield _Member(f"{key}.txt", data, len(data))
    line = text.line.strip()
    yield _Member(f"{key}.json", line, len(line))


def _unchanged(member: _Member) -> LocalSource:
    """Open the file of a member. Raises SourceError: its faults are not those of the output's disk."""
    try:
        file = _opened(str(member.data))
    except OSError as error:
        raise SourceError("io", f"{member.data!s}: {error.strerror}") from None
    if file.length != member.size:
        file.close()
        raise SourceError("io", f"{member.data!s} changed while it was read")
    return file


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise SourceError("io", f"{path}: {error.strerror}") from None


def _opened(path: str) -> LocalSource:
    return LocalSource(path, os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
