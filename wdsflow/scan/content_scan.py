"""Checks the contents of one shard's members to the depth of the level, and counts their traits."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wdsflow.media import media_kind
from wdsflow.scan.content.arrays import NPY_START, npy_is_valid, npy_rank
from wdsflow.scan.content.caption_encoding import EncodingGuess
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.content.fitting import MOST_VALUE, ColumnCheck, Kind
from wdsflow.scan.content.media_content import media_notes_and_format
from wdsflow.scan.content.other import decode_other
from wdsflow.scan.content.text_content import decode_text
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .column_status import status_in_column
from .evidence import FieldCount, ScanOptions, ShardEvidence
from .frequent import FrequentValues
from .image_scan import ImageScanner
from .json_scan import JsonScanner
from .member_contents import MemberNotes, Read, read_all
from .shapes import Part
from .statuses import EMPTY, NOT_UTF8, OK, OPAQUE, SUSPECT, UNKNOWN

# Bytes from which a text is reported as huge.
_LONG_TEXT = 1 << 20
# Fields that are told apart; more than that only with malicious names.
_MOST_FIELDS = 4096
# A field that readers use as a flag: if it has a byte they drop the sample.
_BAD_MARK = "__bad__"


class _Field(NamedTuple):
    """All members of one name."""

    kind: str
    # The name in lower case.
    lower: str
    totals: FieldCount
    column: ColumnCheck | None


class ContentScanner:
    """Checks the contents of one shard's members.

    Call ``status`` for each member, ``end_run`` after each run, ``finish`` at the end.
    """

    def __init__(self, shard: ShardEvidence, options: ScanOptions) -> None:
        self.shard = shard
        columns = options.columns
        self.columns: Mapping[str, Kind] = columns.kinds if columns is not None else {}
        self.types = columns.types if columns is not None else {}
        # For fields that are opaque unless a reader's options name them.
        self.kinds = options.kinds()
        self.fields: dict[str, _Field] = {}
        self.notes = MemberNotes(shard.tallies)
        self.images = ImageScanner(shard, options, self.notes)
        self.json = JsonScanner(shard, options, self.notes)
        self.captions: FrequentValues[str] = FrequentValues(16)
        # The open run has an image that trains.
        self.run_has_image = False

    def end_run(self, parts: Sequence[Part]) -> None:
        """Forget the open run, which has these parts, counting its json captions."""
        self.json.end_run(parts, has_image=self.run_has_image)
        self.run_has_image = False

    def status(self, key: str, suffix: str, offset: int, size: int, read: Read) -> str:
        """Return the status of one member, as its decoder would find it.

        MISFIT is appended if the member does not fit its column.
        """
        field = self.fields.get(suffix)
        if field is None:
            field = self._add_field(suffix)
        kind, lower, totals, column = field
        self.notes.key = key
        self.notes.offset = offset
        totals.bytes += size
        if size > totals.largest:
            totals.largest = size
        if kind == "image":
            status = self.images.status(lower, totals, size, read)
            if status == OK and lower in IMAGE_FIELDS:
                self.run_has_image = True
            return status
        if kind == "text":
            return self._text(lower, size, read)
        if kind == "json":
            return self.json.status(column, size, read)
        if kind == "opaque":
            return EMPTY if not size and lower == _BAD_MARK else OPAQUE
        if kind == "media":
            notes, detail = media_notes_and_format(lower, size, read)
            self.notes.add(notes, f"{lower}: {detail}" if detail else lower)
            # Readers leave it as bytes.
            return OPAQUE
        return self._other(field, size, read)

    def _add_field(self, suffix: str) -> _Field:
        lower = suffix.lower()
        totals = self.shard.field_count(lower)
        kind = kind_of(lower)
        if kind == "opaque":
            kind = self.kinds.get(lower) or ("media" if media_kind(lower) else kind)
        column = None
        column_kind = self.columns.get(suffix)
        # Integers fit wherever there is one, but tables hold none of more than 64 bits.
        if column_kind is not None and (kind != "integer" or self.types):
            column = ColumnCheck(suffix, column_kind, self.types.get(suffix))
        field = _Field(kind, lower, totals, column)
        if len(self.fields) < _MOST_FIELDS:
            self.fields[suffix] = field
        return field

    def _text(self, lower: str, size: int, read: Read) -> str:
        if size > _LONG_TEXT:
            self.notes.add(("text.huge",), lower)
        data = read_all(size, read)
        if data is None:
            return SUSPECT
        status, notes, text = decode_text(data)
        if lower == "txt":
            self._count_caption(status, text, data)
        if notes:
            self.notes.add(notes, lower)
        return status

    def _count_caption(self, status: str, text: str | None, data: bytes) -> None:
        facts = self.shard.captions
        facts.count += 1
        if text:
            facts.characters += len(text)
            if len(text) > facts.longest:
                facts.longest = len(text)
            self.captions.add(text[:80])
        elif status == NOT_UTF8:
            if self.shard.encoding is None:
                self.shard.encoding = EncodingGuess()
            self.shard.encoding.add(data)

    def _other(self, field: _Field, size: int, read: Read) -> str:
        kind, lower, totals, column = field
        if kind == "npy" and column is None:
            return self._npy(lower, totals, size, read)
        data = read_all(size, read)
        if data is None:
            self.notes.add(("field.huge",), lower)
            return SUSPECT
        status, notes = decode_other(kind, lower, data)
        self.notes.add(notes, lower)
        if kind == "npy" and status == OK:
            totals.ranks |= 1 << (npy_rank(data) + 1)
        if column is None or status != OK:
            return status
        if size > MOST_VALUE:
            return UNKNOWN
        return status_in_column(column, status, data, self.notes)

    def _npy(self, lower: str, totals: FieldCount, size: int, read: Read) -> str:
        """Judge an array by its start: the values themselves need not be read."""
        start = read(0, min(size, NPY_START))
        if not npy_is_valid(start, size):
            # Where numpy is missing, that is the reason.
            status, notes = decode_other("npy", lower, start)
            self.notes.add(notes, lower)
            return status
        totals.ranks |= 1 << (npy_rank(start) + 1)
        return OK

    def finish(self) -> None:
        """Write the counts into the shard's evidence."""
        self.json.finish()
        self.images.finish()
        self.shard.captions.frequent = self.captions.counts()


class EmptyContentScanner(ContentScanner):
    """Judges the contents of empty members, which are known by their sizes, and no others."""

    def status(self, key: str, suffix: str, offset: int, size: int, read: Read) -> str:
        """Return UNKNOWN for a member that has contents."""
        return UNKNOWN if size else super().status(key, suffix, offset, size, read)
