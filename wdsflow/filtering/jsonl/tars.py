"""Kept rows as samples in tars: texts without tokens, images and videos unchanged, and the row itself."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.pieces.joined_source import JoinedSource
from wdsflow.pieces.new_members import member, moved
from wdsflow.pieces.pieces import END, address
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import LocalSource, Piece, Source, SourceChangedError, SourceError
from wdsflow.shards.tar.tar_header import BLOCK, padded
from wdsflow.stages.scores.score_errors import ScoreError

from .jsonl_rows import TextRow, TextRows

_ODD = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True)
class TarSize:
    """Limits of one tar: samples, and bytes, which a single sample may exceed."""

    samples: int
    size: int


class _Member(NamedTuple):
    name: str
    data: bytes | str  # or the path of a file
    size: int


def put_aside_unreadable(source: Source, rows: Sequence[Row], texts: TextRows) -> None:
    """Quarantine kept rows that cannot be copied: "missing-file", "empty-file", "not-text"."""
    for row in rows:
        if row.outcome == "kept":
            try:
                text = _parsed(source, row, texts)
                "".join(chunk.caption for chunk in text.chunks).encode()
                for _, path in text.media.files:
                    with _opened(path) as file:
                        if not file.length:
                            row.quarantine("empty-file", f"{os.path.basename(path)!r} is empty")
            except ScoreError as error:
                row.quarantine(error.slug, error.detail)
            except UnicodeEncodeError:
                row.quarantine("not-text", "it has half a surrogate pair, which is not text")
            except OSError as error:
                row.quarantine("missing-file", f"{error.strerror}: {os.path.basename(error.filename or '')!r}")


def write_tars(
    layout: Layout,
    name: str,
    source: Source,
    rows: Sequence[Row],
    record: ShardRecord,
    texts: TextRows,
    most: TarSize,
    *,
    empty: bool = False,
) -> None:
    """Write the kept rows as ``NAME-000000.tar`` and so on, each in one step, and add them to the record.

    The key is the name of the output and the row's number. Members: the row as it is (``json``), its captions without
    tokens, one line each (``txt``), and its files by their type (``jpg``). The field of the first is its extension
    alone, which trainers find; further ones of that extension, or of any other kind of image, are ``1.jpg`` and so on.
    Tars of an earlier run that are not written again are removed. ``empty``: write a tar even if no row is kept. Raises
    OSError, SourceError if a file changed meanwhile.
    """
    before = {path.name for path in layout.parts(name)}
    kept = (row for row in rows if row.outcome == "kept")
    samples = ([*_members(name, row, _read(source, row, texts))] for row in kept)
    for number, group in groupby(_numbered(samples, most), itemgetter(0)):
        _write(layout.part(name, number), map(itemgetter(1), group), record)
    if empty and not record.parts:
        _write(layout.part(name, 0), (), record)
    for old in sorted(before - record.parts.keys()):
        (layout.folder / old).unlink(missing_ok=True)


def _numbered(samples: Iterable[list[_Member]], most: TarSize) -> Iterator[tuple[int, list[_Member]]]:
    """Yield samples with the numbers of their tars."""
    number, count, total = 0, 0, len(END)
    for members in samples:
        size = sum(BLOCK + padded(member.size) for member in members)
        if count and (count >= most.samples or total + size > most.size):
            number, count, total = number + 1, 0, len(END)
        count, total = count + 1, total + size
        yield number, members


def _write(path: Path, samples: Iterable[list[_Member]], record: ShardRecord) -> None:
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
    record.parts[path.name] = {"samples": count, **fingerprint(str(path))}


def _read(source: Source, row: Row, texts: TextRows) -> TextRow:
    """Return a row once more. Raises SourceError if it or its files no longer exist."""
    try:
        return _parsed(source, row, texts)
    except ScoreError as error:
        raise SourceChangedError(f"row {row.number}: {error.detail}") from None


def _parsed(source: Source, row: Row, texts: TextRows) -> TextRow:
    line = source.read_at(row.start, row.end - row.start)
    if len(line) != row.end - row.start:
        raise SourceChangedError
    return texts.filled(row.number, row.start, row.end, line)


def _members(name: str, row: Row, text: TextRow) -> Iterator[_Member]:
    key = f"{_ODD.sub('_', name.removesuffix('.jsonl'))}-{row.key}"
    taken: set[str] = set()
    for kind in (text.media.images, text.media.videos):
        for number, (field, path) in enumerate(kind):
            ending = field.rpartition(".")[2]
            ending = f"{len(taken)}.{ending}" if number or ending in taken else ending
            taken.add(ending)
            yield _Member(f"{key}.{ending}", path, _size(path))
    caption = "\n".join(chunk.caption for chunk in text.chunks if chunk.caption)
    if caption:
        data = caption.encode()
        yield _Member(f"{key}.txt", data, len(data))
    line = text.line.strip()
    yield _Member(f"{key}.json", line, len(line))


def _unchanged(member: _Member) -> LocalSource:
    """Open the file of a member. Raises SourceError: what is wrong with it is no fault of the output's disk."""
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
