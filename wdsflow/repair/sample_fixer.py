"""Fixes inside one sample: duplicates, field names, its caption; and whether it can train."""

import zlib
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from wdsflow.readers.wanted_fields import CAPTION, trouble
from wdsflow.repair.contents import Contents
from wdsflow.repair.regroup import RegroupedSample
from wdsflow.shards.caption_field import LARGEST, CaptionField, caption_of
from wdsflow.shards.tar.members import Member

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
