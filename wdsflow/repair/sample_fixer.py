"""Fixes the members of one sample: names and contents."""

import io
import posixpath
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

from wdsflow.pieces.new_members import moved
from wdsflow.pieces.pieces import address
from wdsflow.pieces.tar_view import JoinedSource
from wdsflow.readers.wanted_fields import CAPTION, trouble
from wdsflow.shards.caption_field import LARGEST, CaptionField, caption_of
from wdsflow.shards.source.base import Piece, Source
from wdsflow.shards.tar.members import Member

from .regroup import RegroupedSample

_CHUNK = 1 << 20
_HEADERS = 64 << 10  # bytes that hold a link's header with its extended headers


class Contents:
    """The contents of one shard's members, and of members taken from another shard."""

    def __init__(self, source: Source) -> None:
        self._sources = [source]
        self._elsewhere: dict[int, Member] = {}

    @property
    def source(self) -> Source:
        """The source of the pieces."""
        if len(self._sources) == 1:
            return self._sources[0]
        return JoinedSource(lambda number: nullcontext(self._sources[number]), lambda _: 2)

    def adopt(self, member: Member, source: Source) -> None:
        """Record that this member is in another source, the same for all."""
        self._elsewhere[id(member)] = member
        self._sources[1:] = [source]

    def read(self, member: Member, size: int | None = None) -> bytes:
        """Return the first ``size`` bytes, or all. Raises SourceChangedError if the source ends early."""
        return self.part(member, 0, member.size if size is None else size)

    def part(self, member: Member, start: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``start`` on. Raises SourceChangedError if the source ends early."""
        return self._of(member).exactly(member.data + start, max(0, min(size, member.size - start)))

    def same(self, one: Member, other: Member) -> bool:
        """Return whether two members have the same contents."""
        if one.size != other.size:
            return False
        if one is other:
            return True
        for start in range(0, one.size, _CHUNK):
            step = min(_CHUNK, one.size - start)
            mine = self._of(one).exactly(one.data + start, step)
            if mine != self._of(other).exactly(other.data + start, step):
                return False
        return True

    def pieces(self, member: Member, name: str) -> Iterable[Piece]:
        """Return the pieces of a member under another name."""
        return moved(name, address(self._number(member), member.data), member.size)

    def link_target(self, member: Member) -> str | None:
        """Return the name of the member that a link points to; None if it leads out of the archive."""
        stream = io.BytesIO(self._of(member).read_at(member.header, _HEADERS))
        try:
            with tarfile.open(fileobj=stream, mode="r:") as tar:
                info = tar.next()
        except (tarfile.TarError, OSError, ValueError):
            return None
        if info is None or not info.linkname or info.linkname.startswith("/"):
            return None
        if info.islnk():
            return info.linkname
        return posixpath.join(posixpath.dirname(member.name), info.linkname)

    def _of(self, member: Member) -> Source:
        return self._sources[self._number(member)]

    def _number(self, member: Member) -> int:
        return int(id(member) in self._elsewhere)


_LONGEST = 16 << 20  # bytes of a caption that is checked
_UNPACKED = 256 << 20  # bytes of an unpacked gzipped field


@dataclass(frozen=True)
class Edits:
    """Changes in addition to those that every reader needs. By default only junk is dropped."""

    caption: CaptionField | None = None
    rename: tuple[tuple[str, str], ...] = ()
    drop_fields: frozenset[str] = frozenset()
    drop_bad: bool = False

    def options(self) -> list[str]:
        """Return the options that name fields, as typed."""
        return [f"--rename {old}={new}" for old, new in self.rename] + [
            f"--drop-field {name}" for name in self.drop_fields
        ]


class Field(NamedTuple):
    """One member of a repaired sample."""

    name: str
    member: Member | None  # None: made here
    data: bytes | None = None  # contents, if they differ from the member's


class SampleFixer:
    """Applies edits to the samples of one shard and counts the outcomes of their members."""

    def __init__(self, contents: Contents, edits: Edits) -> None:
        self.contents, self.edits = contents, edits
        self.dropped: Counter[str] = Counter()  # reason -> members
        self.dropped_samples: Counter[str] = Counter()  # reason -> samples
        self.fixed: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()  # request that was not possible -> number of samples
        self.applied: Counter[str] = Counter()  # option -> fields that it changed
        self.made = 0

    def fix(self, sample: RegroupedSample) -> list[Field]:
        """Return the members to write for one sample; none if it is dropped."""
        fields = self._rename(self._without_duplicates(sample))
        if self.edits.caption:
            fields = self._with_caption(fields, self.edits.caption)
        kept = [field for field in fields if field.name not in self.edits.drop_fields]
        for field in fields:
            if field.name in self.edits.drop_fields:
                self.applied[f"--drop-field {field.name}"] += 1
                self._drop(field, "dropped field")
        reason = "" if kept else "no members left"
        if kept and self.edits.drop_bad:
            by_name = {field.name: field for field in kept}
            sizes = {name: self.size(field) for name, field in by_name.items()}
            reason = trouble(sizes, lambda name: self.read(by_name[name]))
        if reason:
            self.dropped_samples[reason] += 1
            for field in kept:
                self._drop(field, reason)
            return []
        return kept

    def read(self, field: Field) -> bytes:
        """Return the contents of a field."""
        if field.data is not None or field.member is None:
            return field.data or b""
        return self.contents.read(field.member)

    def size(self, field: Field) -> int:
        """Return how many bytes a field has."""
        return len(field.data) if field.data is not None else field.member.size if field.member else 0

    def _drop(self, field: Field, reason: str) -> None:
        if field.member is None:
            self.made -= 1
        else:
            self.dropped[reason] += 1

    def _without_duplicates(self, sample: RegroupedSample) -> list[Field]:
        if len({name for name, _ in sample.parts}) == len(sample.parts):
            return [Field(name, member) for name, member in sample.parts]
        first: dict[str, Member] = {}
        for name, member in sample.parts:
            if name not in first:
                first[name] = member
            else:
                same = self.contents.same(first[name], member)
                self.dropped["duplicate" if same else "duplicate with other contents"] += 1
        return [Field(name, member) for name, member in first.items()]

    def _rename(self, fields: list[Field]) -> list[Field]:
        for old, new in self.edits.rename:
            names = {field.name for field in fields}
            if old in names and new in names:  # it is not overwritten
                self.missed[f"{old} not renamed: {new} already exists"] += 1
            elif old in names:
                self.applied[f"--rename {old}={new}"] += 1
                fields = [self._renamed(field, new) if field.name == old else field for field in fields]
        return fields

    def _renamed(self, field: Field, new: str) -> Field:
        """A gzipped field that loses its .gz is unpacked."""
        if not field.name.endswith(".gz") or new.endswith(".gz"):
            self.fixed["fields renamed"] += 1
            return field._replace(name=new)
        unpacker = zlib.decompressobj(31)
        try:
            data = unpacker.decompress(self.read(field), _UNPACKED)
        except zlib.error:
            data = b""
        if not unpacker.eof:
            self.missed["gzipped field that cannot be unpacked"] += 1
            return field
        self.fixed["fields unpacked"] += 1
        return Field(new, field.member, data)

    def _with_caption(self, fields: list[Field], wanted: CaptionField) -> list[Field]:
        by_name = {field.name: field for field in fields}
        present, source = by_name.get(CAPTION), by_name.get(wanted.member)
        fault = "" if present is None else self._caption_fault(present)
        if present is not None and not fault:
            return fields
        text = None
        if source is not None and self.size(source) <= LARGEST:
            text = caption_of(self.read(source), wanted.names)
        if text is None:
            self.missed["no caption found in json"] += 1
            return fields
        if present is not None:
            self._drop(present, f"{fault} caption replaced")
        self.made += 1
        self.fixed["captions taken from json"] += 1
        return [*(field for field in fields if field.name != CAPTION), Field(CAPTION, None, text.encode())]

    def _caption_fault(self, caption: Field) -> str:
        if self.size(caption) > _LONGEST:
            return ""
        text = self.read(caption)
        try:
            text.decode()
        except UnicodeDecodeError:
            return "not-UTF-8"
        return "" if text.strip() else "empty"
