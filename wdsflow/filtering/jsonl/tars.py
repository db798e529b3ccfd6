"""Kept rows as samples in tars: texts without tokens, images and videos unchanged, and the row itself."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import LocalSource, Source, SourceChangedError, SourceError
from wdsflow.shards.tar.tar_header import BLOCK, padded
from wdsflow.shards.write_shard import ShardWriter
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
    writer: ShardWriter | None = None
    before = {path.name for path in layout.parts(name)}
    count = 0
    try:
        for row in rows:
            if row.outcome != "kept":
                continue
            members = list(_members(name, row, _read(source, row, texts)))
            size = sum(BLOCK + padded(member.size) for member in members)
            if writer is not None and (count >= most.samples or writer.size + size + 2 * BLOCK > most.size):
                _close(writer, count, record)
                writer = None
            if writer is None:
                writer = ShardWriter(layout.part(name, len(record.parts)), force=True)
                count = 0
            for member in members:
                _add(writer, member)
            count += 1
        if writer is None and empty and not record.parts:
            writer = ShardWriter(layout.part(name, 0), force=True)
        if writer is not None:
            _close(writer, count, record)
            writer = None
    finally:
        if writer is not None:
            writer.abort()
    for old in sorted(before - record.parts.keys()):
        (layout.folder / old).unlink(missing_ok=True)


def _close(writer: ShardWriter, count: int, record: ShardRecord) -> None:
    writer.commit()
    record.parts[writer.path.name] = {"samples": count, **fingerprint(str(writer.path))}


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


def _add(writer: ShardWriter, member: _Member) -> None:
    if isinstance(member.data, bytes):
        writer.add_bytes(member.name, member.data)
        return
    try:
        file = _opened(member.data)
    except OSError as error:  # not a fault of the output's disk
        raise SourceError("io", f"{member.data}: {error.strerror}") from None
    with file:
        if file.length != member.size:
            raise SourceError("io", f"{member.data} changed while it was read")
        writer.add_range(member.name, file, 0, member.size)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise SourceError("io", f"{path}: {error.strerror}") from None


def _opened(path: str) -> LocalSource:
    return LocalSource(path, os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
