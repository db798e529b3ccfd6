"""Applies a plan to the samples of one shard, one step after the other."""

import sys
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from wdsflow.images.image_header import HEAD
from wdsflow.readers.wanted_fields import CAPTION, why_not_trainable
from wdsflow.scan.content.caption_encoding import decode_caption, is_utf8
from wdsflow.scan.content.field_kinds import IMAGE_EXTENSIONS
from wdsflow.shards.caption_field import LARGEST, CaptionField, caption_of
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.members import Member

from .field_contents import MOST_DECODED, decodes, image_field
from .member_contents import read_contents
from .regroup import RegroupedSample
from .repair_plan import RepairPlan
from .repair_report import ShardRepair

# Bytes of an unpacked gzipped field.
_MOST_UNPACKED = 256 << 20


class Field(NamedTuple):
    """One member of a repaired sample."""

    name: str
    # None: created by the repair.
    member: Member | None
    # Contents, if they differ from those of the member.
    data: bytes | None = None

    @property
    def size(self) -> int:
        """Bytes of the contents."""
        if self.data is not None:
            return len(self.data)
        return self.member.size if self.member else 0


class SampleFixer:
    """Applies a plan to the samples of one shard.

    Counts the outcomes of their members in its report.
    """

    def __init__(self, source: Source, plan: RepairPlan, report: ShardRepair) -> None:
        self._source = source
        self._plan = plan
        self._report = report

    def fix(self, sample: RegroupedSample) -> list[Field]:
        """Return the members to write for one sample; none if it is dropped."""
        plan = self._plan
        fields = [Field(name, member) for name, member in sample.parts]
        if plan.name_images:
            fields = self._with_image(fields)
        for old, new in plan.rename:
            fields = self._renamed(fields, old, new)
        if plan.encoding:
            fields = self._reencoded(fields)
        if plan.caption is not None:
            fields = self._with_caption(fields, plan.caption)
        for old, new in plan.rename_bad:
            fields = self._with_bad_renamed(fields, old, new)
        fields = self._without_dropped_fields(fields)
        reason = self._reason_to_drop(fields)
        if not reason:
            return fields
        self._report.samples_dropped[reason] += 1
        for field in fields:
            self._count_dropped(field, reason)
        return []

    def read(self, field: Field, start: int = 0, size: int = sys.maxsize) -> bytes:
        """Return contents of a field, or a part of them. Raises OSError."""
        if field.data is not None or field.member is None:
            return (field.data or b"")[start : start + size]
        return read_contents(self._source, field.member, start, size)

    def _with_image(self, fields: list[Field]) -> list[Field]:
        """Give the only image of a sample without one for readers the name that they look for."""
        names = {field.name for field in fields}
        if not names.isdisjoint(IMAGE_FIELDS):
            return fields
        images = {}
        for field in fields:
            # "seg.png" and "left.jpg" say which image of the sample they are: whoever named them
            # has to choose.
            is_compound = "." in field.name and field.name.rpartition(".")[2] in IMAGE_EXTENSIONS
            new = "" if is_compound else image_field(self.read(field, 0, HEAD))
            if new:
                images[field.name] = new
        if len(images) != 1:
            return fields
        self._report.applied["--name-images"] += 1
        return [field._replace(name=images.get(field.name, field.name)) for field in fields]

    def _renamed(self, fields: list[Field], old: str, new: str) -> list[Field]:
        names = {field.name for field in fields}
        if old not in names:
            return fields
        if new in names:
            # It is not overwritten.
            self._report.missed[f"{old} not renamed: {new} already exists"] += 1
            return fields
        self._report.applied[f"--rename {old}={new}"] += 1
        after: list[Field] = []
        for field in fields:
            if field.name == old:
                after.append(self._under_new_name(field, new))
            else:
                after.append(field)
        return after

    def _under_new_name(self, field: Field, new: str) -> Field:
        """Return a field under a new name; a gzipped one that loses its .gz is unpacked."""
        if not field.name.endswith(".gz") or new.endswith(".gz"):
            return field._replace(name=new)
        data = _gunzipped(self.read(field))
        if data is None:
            self._report.missed["gzipped field that cannot be unpacked"] += 1
            return field
        return Field(new, field.member, data)

    def _reencoded(self, fields: list[Field]) -> list[Field]:
        """Write captions that are not UTF-8 again in UTF-8."""
        encoding = self._plan.encoding
        after: list[Field] = []
        for field in fields:
            if field.name != CAPTION or field.size > LARGEST:
                after.append(field)
                continue
            data = self.read(field)
            if is_utf8(data):
                after.append(field)
                continue
            text = decode_caption(data, encoding)
            if text is None:
                self._report.missed[f"caption is neither UTF-8 nor {encoding}"] += 1
                after.append(field)
                continue
            self._report.applied[f"--caption-encoding {encoding}"] += 1
            after.append(Field(CAPTION, field.member, text.encode()))
        return after

    def _with_caption(self, fields: list[Field], caption: CaptionField) -> list[Field]:
        """Take the caption from json, if the sample has none that readers accept."""
        by_name = {field.name: field for field in fields}
        present = by_name.get(CAPTION)
        fault = "" if present is None else self._caption_fault(present)
        if present is not None and not fault:
            return fields
        json = by_name.get(caption.member)
        text = None
        if json is not None and json.size <= LARGEST:
            text = caption_of(self.read(json), caption.names)
        if text is None:
            self._report.missed["no caption found in json"] += 1
            return fields
        if present is not None:
            self._count_dropped(present, f"{fault} caption replaced")
        self._report.made += 1
        self._report.applied[f"--caption {caption.text}"] += 1
        others = [field for field in fields if field.name != CAPTION]
        return [*others, Field(CAPTION, None, text.encode())]

    def _caption_fault(self, caption: Field) -> str:
        if caption.size > LARGEST:
            return ""
        data = self.read(caption)
        if not is_utf8(data):
            return "not-UTF-8"
        return "" if data.decode().strip() else "empty"

    def _with_bad_renamed(self, fields: list[Field], old: str, new: str) -> list[Field]:
        """Rename a field that does not decode, so that readers leave it as bytes."""
        names = {field.name for field in fields}
        after: list[Field] = []
        for field in fields:
            if field.name != old or field.size > MOST_DECODED or decodes(old, self.read(field)):
                after.append(field)
            elif new in names:
                self._report.missed[f"{old} not renamed: {new} already exists"] += 1
                after.append(field)
            else:
                self._report.applied[f"--rename-bad {old}={new}"] += 1
                after.append(field._replace(name=new))
        return after

    def _without_dropped_fields(self, fields: list[Field]) -> list[Field]:
        kept: list[Field] = []
        for field in fields:
            if field.name in self._plan.drop_fields:
                self._report.applied[f"--drop-field {field.name}"] += 1
                self._count_dropped(field, "dropped field")
            else:
                kept.append(field)
        return kept

    def _reason_to_drop(self, fields: Sequence[Field]) -> str:
        """Return why a sample is left out, "" if it stays."""
        if not fields:
            return "no members left"
        if not self._plan.drop_bad:
            return ""
        by_name = {field.name: field for field in fields}
        sizes = {field.name: field.size for field in fields}
        reason = why_not_trainable(sizes, lambda name: self.read(by_name[name]))
        if reason:
            self._report.applied["--drop-bad"] += 1
        return reason

    def _count_dropped(self, field: Field, reason: str) -> None:
        if field.member is None:
            self._report.made -= 1
        else:
            self._report.dropped[reason] += 1


def _gunzipped(data: bytes) -> bytes | None:
    """Return the contents of a gzip file; None if they are damaged or too large."""
    unpacker = zlib.decompressobj(31)
    try:
        unpacked = unpacker.decompress(data, _MOST_UNPACKED)
    except zlib.error:
        return None
    return unpacked if unpacker.eof else None
