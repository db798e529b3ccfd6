"""What is mended inside one sample: duplicates, field names, its caption; and whether it can train."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wdsflow.shards.captions import LARGEST, CaptionField, caption_of
from wdsflow.shards.contents import Contents
from wdsflow.shards.regroup import Sample
from wdsflow.shards.tar import Member

IMAGES = ("jpg", "png", "jpeg", "webp")  # in the order in which OpenCLIP takes them
CAPTION = "txt"
_LONGEST = 16 << 20  # a caption beyond that is none


@dataclass(frozen=True)
class Edits:
    """What is to be changed beside what every reader needs. By default nothing is dropped but junk."""

    caption: CaptionField | None = None
    rename: tuple[tuple[str, str], ...] = ()
    drop_fields: frozenset[str] = frozenset()
    drop_bad: bool = False


class Field(NamedTuple):
    """One member of a mended sample: contents lie in the source, or are made."""

    name: str
    member: Member | None
    data: bytes = b""


class Mender:
    """Applies edits to the samples of one shard and counts what becomes of their members."""

    def __init__(self, contents: Contents, edits: Edits) -> None:
        self.contents, self.edits = contents, edits
        self.dropped: Counter[str] = Counter()  # reason -> members
        self.lost_samples: Counter[str] = Counter()  # reason -> samples
        self.mended: Counter[str] = Counter()
        self.made = 0
        self.without_caption = 0  # samples for which no caption was found where it was to be taken from

    def mend(self, sample: Sample) -> list[Field]:
        """Return the members to write for one sample; none where it is dropped."""
        fields = self._rename(self._without_duplicates(sample))
        if self.edits.caption:
            fields = self._with_caption(fields, self.edits.caption)
        kept = [field for field in fields if field.name not in self.edits.drop_fields]
        for field in fields:
            if field.name in self.edits.drop_fields:
                self._drop(field, "dropped-field")
        reason = "" if kept else "no-members-left"
        if kept and self.edits.drop_bad:
            reason = self._trouble(kept)
        if reason:
            self.lost_samples[reason] += 1
            for field in kept:
                self._drop(field, reason)
            return []
        return kept

    def _drop(self, field: Field, reason: str) -> None:
        if field.member is None:
            self.made -= 1
        else:
            self.dropped[reason] += 1

    def _without_duplicates(self, sample: Sample) -> list[Field]:
        if len({name for name, _ in sample.parts}) == len(sample.parts):
            return [Field(name, member) for name, member in sample.parts]
        fields: dict[str, Field] = {}
        seen: set[str] = set()
        for name, member in sample.parts:
            first = fields.setdefault(name, Field(name, member)).member
            if name not in seen:
                seen.add(name)
            elif first is not None:
                same = self.contents.same(first, member)
                self.dropped["duplicate" if same else "duplicate-with-other-contents"] += 1
        return list(fields.values())

    def _rename(self, fields: list[Field]) -> list[Field]:
        for old, new in self.edits.rename:
            names = {field.name for field in fields}
            if old in names and new not in names:  # a field that is there already is not overwritten
                fields = [field._replace(name=new) if field.name == old else field for field in fields]
                self.mended["fields renamed"] += 1
        return fields

    def _with_caption(self, fields: list[Field], wanted: CaptionField) -> list[Field]:
        by_name = {field.name: field for field in fields}
        present = by_name.get(CAPTION)
        if present is not None and not self._is_blank(present):
            return fields
        text = None
        source = by_name.get(wanted.member)
        if source is not None and source.member is not None and source.member.size <= LARGEST:
            text = caption_of(self.contents.read(source.member), wanted.names)
        if text is None:
            self.without_caption += 1
            return fields
        if present is not None:
            self._drop(present, "empty-caption-replaced")
        self.made += 1
        self.mended["captions taken from json"] += 1
        return [*(field for field in fields if field.name != CAPTION), Field(CAPTION, None, text.encode())]

    def _is_blank(self, field: Field) -> bool:
        return (
            field.member is not None and field.member.size <= _LONGEST and not self.contents.read(field.member).strip()
        )

    def _trouble(self, fields: Sequence[Field]) -> str:
        """Say why OpenCLIP would not train on a sample; empty where it would."""
        by_name = {field.name: field for field in fields}
        image = next((by_name[name] for name in IMAGES if name in by_name), None)
        caption = by_name.get(CAPTION)
        if image is None or image.member is None:
            return "bad: no image"
        if caption is None:
            return "bad: no caption"
        if not self.contents.is_image(image.member):
            return "bad: image is not an image"
        if caption.member is None:
            return ""
        if caption.member.size > _LONGEST:
            return "bad: caption is huge"
        try:
            text = self.contents.read(caption.member).decode()
        except UnicodeDecodeError:
            return "bad: caption is not UTF-8"
        return "" if text.strip() else "bad: caption is empty"
