"""Looks into the contents of one shard's members, as far as the level requires, and counts their traits."""

import heapq
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from wdsflow.images.image_header import ImageHeader, first_header
from wdsflow.media import media_kind
from wdsflow.scan.content.caption_encoding import EncodingGuess
from wdsflow.scan.content.fitting import MOST_VALUE, ColumnCheck, Kind
from wdsflow.scan.content.image_content import (
    decode_image,
    ends_early,
    has_end,
    header_status,
    image_notes,
    is_told_by_header,
    with_cause,
)
from wdsflow.scan.content.other import (
    NPY_START,
    decode_other,
    kind_of,
    media_notes,
    npy_is_valid,
    npy_rank,
)
from wdsflow.scan.content.text_content import look_at_json, look_at_text, texts_in
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .evidence import (
    BAD,
    BIG,
    EMPTY,
    MISFIT,
    NOT_UTF8,
    OK,
    OPAQUE,
    SUSPECT,
    UNKNOWN,
    FieldCount,
    JsonKey,
    Part,
    ScanOptions,
    Shape,
    ShardEvidence,
    Tally,
)
from .layouts import InterleavedCount, interleaved

T = TypeVar("T", bound=Hashable)
_BLOCK = 4096

# First bytes of an image that are looked at.
HEAD = 4096
TAIL = 32
# Bytes from which a text is reported as huge.
LONG_TEXT = 1 << 20
LONG_JSON = 16 << 20
# Parsed, it takes several times as much.
MOST_JSON = 64 << 20
# Larger contents are not decoded: a field must fit into memory several times.
MOST_FIELD = 256 << 20
_JSON_KEYS = 64
# Kinds of runs that are counted before they are added up.
_RUNS = 1024
# Of runs, for which captions in json are counted separately.
_SHAPES = 256
# Hashes of images that are kept.
_IMAGES = 64
# A field that readers use as a flag: if it has a byte they drop the sample.
BAD_MARK = "__bad__"

# Bits of FieldCount.ranks: arrays of two or three dimensions.
_GREY, _COLOURED = 1 << 3, 1 << 4
_RANKS = dict.fromkeys(("1", "L", "P", "I", "F", "I;16", "I;16B", "I;16L"), _GREY) | {
    "": _GREY | _COLOURED
}

_DECODABLE = (OK, BIG)

# Offset within the contents, number of bytes.
Read = Callable[[int, int], bytes]
# Of all members of one name: kind, name in lower case, counts, column.
_Field = tuple[str, str, FieldCount, ColumnCheck | None]


class Frequent(Generic[T]):
    """Values that make up more than 1/(size + 1) of a stream, with lower bounds of their counts.

    Misra and Gries, "Finding repeated elements", Science of Computer Programming 2 (1982), merged
    in blocks as in Agarwal and others, "Mergeable summaries", ACM TODS 38 (2013).

    >>> frequent = Frequent(2)
    >>> for value in "aabacaa":
    ...     frequent.add(value)
    >>> frequent.counts()
    {'a': 4}
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._counts: dict[T, int] = {}
        # Counted together: that takes a fifth of the time.
        self._waiting: list[T] = []

    def add(self, value: T) -> None:
        """Count one value."""
        self._waiting.append(value)
        if len(self._waiting) >= _BLOCK:
            self._merge()

    def _merge(self) -> None:
        totals = Counter(self._waiting)
        totals.update(self._counts)
        self._waiting.clear()
        cut = sorted(totals.values(), reverse=True)[self._size] if len(totals) > self._size else 0
        self._counts = {value: count - cut for value, count in totals.items() if count > cut}

    def counts(self) -> dict[T, int]:
        """Return values counted more than once, the most frequent first."""
        self._merge()
        items = sorted(self._counts.items(), key=lambda item: -item[1])
        return {value: count for value, count in items if count > 1}


def smallest_hashes(names: Iterable[str], size: int) -> tuple[int, ...]:
    """Return the ``size`` smallest 32-bit hashes of names, which may hold surrogates."""
    hashes = (zlib.crc32(name.encode("utf-8", "surrogateescape")) for name in names)
    return tuple(heapq.nsmallest(size, hashes))


def whole(size: int, read: Read) -> bytes | None:
    """Return the contents of a member; None if they are too large, or cannot be read as a whole."""
    data = read(0, size) if size <= MOST_FIELD else b""
    return data if len(data) == size else None


class Looker:
    """Judges contents for one shard. ``look`` gives the status of a member as its decoder would find it."""

    def __init__(self, shard: ShardEvidence, options: ScanOptions) -> None:
        self.shard = shard
        columns = options.columns
        self.columns: Mapping[str, Kind] = columns.kinds if columns is not None else {}
        self.types = columns.types if columns is not None else {}
        # For fields that are opaque unless a reader's options name them.
        self.kinds = options.kinds()
        self.full = options.level == "full"
        self.wanted = options.json_text_key
        self.max_image_pixels = options.max_image_pixels
        self.captions: Frequent[str] = Frequent(16)
        self.images: Frequent[int] = Frequent(16)
        # The smallest ones, and some that are not looked at yet.
        self.image_hashes: set[int] = set()
        # The open run has an image that trains.
        self.run_images = False
        # Json names that hold a text in the open run.
        self.run_keys: list[str] = []
        # Such names, the shape of the run and whether it has an image that trains -> runs: most
        # runs are alike.
        self.runs: dict[tuple[tuple[str, ...], Shape, bool], int] = {}
        # Made at the first json that orders texts and images.
        self.interleaved: InterleavedCount | None = None
        self.table: dict[str, _Field] = {}
        # Of the member that is looked at.
        self.key, self.offset = "", 0

    def note(self, names: tuple[str, ...], detail: str = "") -> None:
        """Count the member that is looked at under each of the names."""
        for name in names:
            self.shard.tallies.setdefault(name, Tally()).add(self.key, self.offset, detail)

    def end_run(self, parts: Sequence[Part]) -> None:
        """Forget the open run, which has these parts, counting its json captions."""
        if self.run_keys:
            kind = tuple(self.run_keys), tuple(parts), self.run_images
            self.runs[kind] = self.runs.get(kind, 0) + 1
            self.run_keys = []
            if len(self.runs) > _RUNS:
                self._count_runs()
        if self.interleaved is not None:
            self.interleaved.end(parts)
        self.run_images = False

    def _count_runs(self) -> None:
        """Add to each json name how often, and in which shapes of runs, it holds a text."""
        for (names, shape, with_image), count in self.runs.items():
            for name in names:
                entry = self.shard.json_keys[name]
                entry.with_image += count * with_image
                if shape in entry.shapes or len(entry.shapes) < _SHAPES:
                    entry.shapes[shape] = entry.shapes.get(shape, 0) + count
        self.runs.clear()

    def look(self, key: str, suffix: str, offset: int, size: int, read: Read) -> str:
        """Return the status of one member's contents, with MISFIT after it where they do not fit into their column."""
        field = self.table.get(suffix)
        if field is None:
            field = self._enter(suffix)
        kind, lower, count, column = field
        self.key, self.offset = key, offset
        count.bytes += size
        if size > count.largest:
            count.largest = size
        if kind == "image":
            status = self._image(lower, count, size, read)
            self.run_images = self.run_images or (status == OK and lower in IMAGE_FIELDS)
            return status
        if kind == "text":
            return self._text(lower, size, read)
        if kind == "json":
            return self._json(column, size, read)
        if kind == "opaque":
            return EMPTY if not size and lower == BAD_MARK else OPAQUE
        if kind == "media":
            notes, found = media_notes(lower, size, read)
            self.note(notes, f"{lower}: {found}" if found else lower)
            # Readers leave it as bytes.
            return OPAQUE
        return self._other(field, size, read)

    def _enter(self, suffix: str) -> _Field:
        lower = suffix.lower()
        folded = lower if len(self.shard.fields) < 256 else "*." + lower.rpartition(".")[2][:16]
        count = self.shard.fields.setdefault(folded, FieldCount())
        kind = kind_of(lower)
        if kind == "opaque":
            kind = self.kinds.get(lower) or ("media" if media_kind(lower) else kind)
        # Integers fit wherever there is one, but tables hold none of more than 64 bits.
        column = self.columns.get(suffix) if kind != "integer" or self.types else None
        field = (
            kind,
            lower,
            count,
            None if column is None else ColumnCheck(suffix, column, self.types.get(suffix)),
        )
        if len(self.table) < 4096:
            self.table[suffix] = field
        return field

    def _image(self, lower: str, count: FieldCount, size: int, read: Read) -> str:
        header, head = first_header(lambda start, most: read(start, min(most, size - start)), size)
        notes = image_notes(header, lower, head, size)
        if header is not None:
            self._count_image(header, size)
            count.ranks |= _RANKS.get(header.mode, _COLOURED)
        early = header is not None and ends_early(
            read(size - TAIL, TAIL) if size > TAIL else head, header
        )
        status = header_status(header, size, self.max_image_pixels)
        # Decoding is dear. An image that would be reported as cut, or that its header does not
        # judge, is worth it.
        if self.full or (status in _DECODABLE and (early or not is_told_by_header(header))):
            data = whole(size, read)
            if data is None:
                self.note(("field.huge",), lower)
                status = SUSPECT if status in _DECODABLE else status
            else:
                status, decoder_notes = decode_image(data, self.max_image_pixels)
                notes += tuple(note for note in decoder_notes if note not in notes)
                # Few images end in other bytes: only these are searched to their end.
                if early and header is not None and not self.full and not has_end(data, header):
                    notes += ("image.cut",) if "image.cut" not in notes else ()
                self._remember_image(data)
        if notes:
            size_text = (
                f"{header.width}x{header.height}" if header is not None and header.width else ""
            )
            self.note(notes, f"{lower} {size_text}".strip())
        return with_cause(status, notes)

    def _remember_image(self, data: bytes) -> None:
        """Count an image that occurs again; only if all are read."""
        if not self.full:
            return
        digest = zlib.crc32(data)
        self.images.add(digest)
        self.image_hashes.add(digest)
        if len(self.image_hashes) > _BLOCK:
            self.image_hashes = set(heapq.nsmallest(_IMAGES, self.image_hashes))

    def _count_image(self, header: ImageHeader, size: int) -> None:
        facts = self.shard.images
        pixels = header.width * header.height
        facts.count += 1
        facts.pixels += pixels
        facts.bytes += size
        if pixels > facts.largest:
            facts.largest = pixels
        facts.formats[header.format] = facts.formats.get(header.format, 0) + 1
        facts.modes[header.mode] = facts.modes.get(header.mode, 0) + 1
        power = pixels.bit_length() - 1
        facts.megapixels[power] = facts.megapixels.get(power, 0) + 1

    def _text(self, lower: str, size: int, read: Read) -> str:
        if size > LONG_TEXT:
            self.note(("text.huge",), lower)
        data = whole(size, read)
        if data is None:
            return SUSPECT
        status, notes, text = look_at_text(data)
        if lower == "txt":
            facts = self.shard.captions
            facts.count += 1
            if text:
                facts.characters += len(text)
                if len(text) > facts.longest:
                    facts.longest = len(text)
                self.captions.add(text[:80])
            elif status == NOT_UTF8:
                self.shard.encoding = self.shard.encoding or EncodingGuess()
                self.shard.encoding.add(data)
        if notes:
            self.note(notes, lower)
        return status

    def _json(self, column: ColumnCheck | None, size: int, read: Read) -> str:
        if size > LONG_JSON:
            self.note(("json.huge",))
        data = whole(size, read) if size <= MOST_JSON else None
        if data is None:
            return SUSPECT
        status, notes, value = look_at_json(data, self.wanted)
        if notes:
            self.note(notes)
        if (
            column is not None
            and status != BAD
            and (value is None or not column.surely_takes(value))
        ):
            status = self._fit(column, status, data)
        if value:
            # One look-up each, as most objects have none of these names: this is the hot loop of
            # sets with json.
            if (
                "conversations" in value
                or "messages" in value
                or "image_info" in value
                or "texts" in value
            ) and (found := interleaved(value)):
                self.interleaved = self.interleaved or InterleavedCount()
                self.interleaved.see(self.key, self.offset, found)
            keys = self.shard.json_keys
            for name, text, plain in texts_in(value):
                entry = keys.get(name)
                if entry is None:
                    if len(keys) >= _JSON_KEYS:
                        continue
                    entry = keys[name] = JsonKey()
                entry.count += 1
                if text:
                    entry.plain += plain
                    self.run_keys.append(name)
                    if entry.varied:
                        entry.strings += 1
                    else:
                        entry.note(text)
        return status

    def _fit(self, column: ColumnCheck, status: str, data: bytes) -> str:
        takes = column.takes(data)
        if takes is None:
            return UNKNOWN
        if column.unwritable:
            self.note(("column.unwritable",), f"{column.suffix}: {column.unwritable}")
        if column.other_type:
            self.note(("column.other-type",), column.suffix)
        if takes:
            return status
        self.note(("column.misfit",), f"{column.suffix}: {column.error}")
        return status + MISFIT

    def _other(self, field: _Field, size: int, read: Read) -> str:
        kind, lower, count, column = field
        if kind == "npy" and column is None:
            return self._npy(lower, count, size, read)
        data = whole(size, read)
        if data is None:
            self.note(("field.huge",), lower)
            return SUSPECT
        status, notes = decode_other(kind, lower, data)
        self.note(notes, lower)
        if kind == "npy" and status == OK:
            count.ranks |= 1 << (npy_rank(data) + 1)
        if column is not None and status == OK:
            return self._fit(column, status, data) if size <= MOST_VALUE else UNKNOWN
        return status

    def _npy(self, lower: str, count: FieldCount, size: int, read: Read) -> str:
        """Judge an array by its start: the values themselves need not be read."""
        start = read(0, min(size, NPY_START))
        if not npy_is_valid(start, size):
            # Where numpy is missing, that is the reason.
            status, notes = decode_other("npy", lower, start)
            self.note(notes, lower)
            return status
        count.ranks |= 1 << (npy_rank(start) + 1)
        return OK

    def finish(self) -> None:
        """Write the counts into the shard's evidence."""
        self._count_runs()
        if self.interleaved is not None:
            self.interleaved.finish(self.shard)
        self.shard.captions.frequent = self.captions.counts()
        self.shard.frequent_images = self.images.counts()
        self.shard.image_sketch = tuple(heapq.nsmallest(_IMAGES, self.image_hashes))


class NamesLooker(Looker):
    """Judges the contents of empty members, which are known by their sizes, and no others."""

    def look(self, key: str, suffix: str, offset: int, size: int, read: Read) -> str:
        """Return UNKNOWN for a member that has contents."""
        return UNKNOWN if size else super().look(key, suffix, offset, size, read)
