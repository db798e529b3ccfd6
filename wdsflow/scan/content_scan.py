"""Looks into the contents of one shard's members, as far as the level asks, and counts what it sees."""

from collections.abc import Callable, Mapping, Sequence

from wdsflow.images.image_header import ImageHeader, read_header
from wdsflow.media import media_kind
from wdsflow.scan.content.fitting import MOST_VALUE, Column, Kind
from wdsflow.scan.content.full_decode import decode_image
from wdsflow.scan.content.image_content import ends_early, has_end, header_status, image_notes
from wdsflow.scan.content.interleaved import interleaved, media_notes
from wdsflow.scan.content.other import decode_other, kind_of, npy_rank
from wdsflow.scan.content.text_content import Varieties, look_at_json, look_at_text, texts_in
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .evidence import BAD, EMPTY, MISFIT, OK, OPAQUE, UNKNOWN, FieldCount, JsonKey, Part, Shape, ShardEvidence, Tally
from .layouts import InterleavedCount
from .scan_options import ScanOptions
from .sketch import Frequent, Smallest

HEAD = 4096  # first bytes of an image that are looked at
TAIL = 32
MOST_TEXT = 1 << 20
MOST_JSON = 16 << 20
MOST_FIELD = 256 << 20  # larger contents are not decoded: a field must fit into memory several times
_JSON_KEYS = 64
_RUNS = 1024  # kinds of runs that are counted before they are added up
_SHAPES = 256  # of runs, for which captions in json are counted one by one
BAD_MARK = "__bad__"  # a field that readers take for a flag: with any byte in it they throw the sample away

_GREY, _COLOURED = 1 << 3, 1 << 4  # bits of FieldCount.ranks: arrays of two or three dimensions
_RANKS = dict.fromkeys(("1", "L", "P", "I", "F", "I;16", "I;16B", "I;16L"), _GREY) | {"": _GREY | _COLOURED}

Read = Callable[[int, int], bytes]  # offset within the contents, number of bytes


class Looker:
    """Judges contents for one shard. ``look`` gives the status of a member as its decoder would find it."""

    def __init__(self, shard: ShardEvidence, options: ScanOptions) -> None:
        self.shard = shard
        columns = options.columns
        self.columns: Mapping[str, Kind] = columns.kinds if columns is not None else {}
        self.types = columns.types if columns is not None else {}
        self.kinds = options.kinds()  # for fields that are opaque unless a reader was told to take them
        self.full = options.level == "full"
        self.wanted = options.json_text_key
        self.max_image_pixels = options.max_image_pixels
        self.captions: Frequent[str] = Frequent(16)
        self.images: Frequent[int] = Frequent(16)
        self.image_hashes = Smallest(64)
        self.run_images = False  # the open run has an image that trains
        self.run_keys: list[str] = []  # json names that hold a text in the open run
        # Such names, the shape of the run and whether it has an image that trains -> runs: most runs are alike.
        self.runs: dict[tuple[tuple[str, ...], Shape, bool], int] = {}
        self.interleaved: InterleavedCount | None = None  # made at the first json that orders texts and images
        self.table: dict[str, tuple[str, str, FieldCount, Column | None]] = {}
        self.varieties = Varieties(shard.varieties) if options.varieties else None

    def note(self, names: tuple[str, ...], key: str, offset: int, detail: str = "") -> None:
        """Count a member under each of the names."""
        for name in names:
            self.shard.tallies.setdefault(name, Tally()).add(key, offset, detail)

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
        entry = self.table.get(suffix)
        if entry is None:
            entry = self._enter(suffix)
        kind, lower, count, column = entry
        count.bytes += size
        if size > count.largest:
            count.largest = size
        if kind == "image":
            status = self._image(key, lower, offset, size, read, count)
            self.run_images = self.run_images or (status == OK and lower in IMAGE_FIELDS)
            return status
        if kind == "text":
            return self._text(key, lower, offset, size, read)
        if kind == "json":
            return self._json(key, offset, size, read, column)
        if self.varieties is not None and kind not in ("image", "text", "json"):
            self.varieties.size(key, suffix, offset, size)
        if kind == "opaque":
            return EMPTY if not size and lower == BAD_MARK else OPAQUE
        if kind == "media":
            self._media(key, lower, offset, size, read)
            return OPAQUE  # readers leave it as bytes
        return self._other(kind, lower, key, offset, size, read, count, column)

    def _enter(self, suffix: str) -> tuple[str, str, FieldCount, Column | None]:
        lower = suffix.lower()
        folded = lower if len(self.shard.fields) < 256 else "*." + lower.rpartition(".")[2][:16]
        count = self.shard.fields.setdefault(folded, FieldCount())
        kind = kind_of(lower)
        if kind == "opaque":
            kind = self.kinds.get(lower) or ("media" if media_kind(lower) else kind)
        # Integers fit wherever there is one, but tables hold none of more than 64 bits.
        column = self.columns.get(suffix) if kind != "integer" or self.types else None
        entry = (kind, lower, count, None if column is None else Column(suffix, column, self.types.get(suffix)))
        if len(self.table) < 4096:
            self.table[suffix] = entry
        return entry

    def _image(self, key: str, suffix: str, offset: int, size: int, read: Read, count: FieldCount) -> str:
        if self.full and size <= MOST_FIELD:
            data = read(0, size)
            head: bytes = data[:HEAD]
        else:
            data = b""
            head = read(0, min(size, HEAD))
            if self.full:
                self.note(("field.huge",), key, offset, suffix)
        header = read_header(head)
        while header is not None and header.needs > len(head) < size:
            head = data or read(0, min(size, header.needs))
            header = read_header(head)
        notes = image_notes(header, suffix, head, size)
        if self.varieties is not None:
            self.varieties.image(key, suffix, offset, header)
        if header is not None:
            self._count_image(header, size)
            count.ranks |= _RANKS.get(header.mode, _COLOURED)
        if not data:
            status = header_status(header, size, self.max_image_pixels)
            early = header is not None and ends_early(read(size - TAIL, TAIL) if size > TAIL else head, header)
            # Few images end in other bytes: only these are read to their end.
            if header is not None and early and not (size <= MOST_FIELD and has_end(read(0, size), header)):
                notes += ("image.cut",)
        else:
            status, found = decode_image(data, self.max_image_pixels)
            notes += tuple(note for note in found if note not in notes)
            digest = self.image_hashes.add(data)
            self.images.add(digest)
        if notes:
            size_text = f"{header.width}x{header.height}" if header is not None and header.width else ""
            self.note(notes, key, offset, f"{suffix} {size_text}".strip())
        return status

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

    def _text(self, key: str, suffix: str, offset: int, size: int, read: Read) -> str:
        if size > MOST_TEXT:
            self.note(("text.huge",), key, offset, suffix)
            return UNKNOWN
        status, notes, text = look_at_text(read(0, size))
        if suffix == "txt":
            facts = self.shard.captions
            facts.count += 1
            if text:
                facts.characters += len(text)
                if len(text) > facts.longest:
                    facts.longest = len(text)
                self.captions.add(text[:80])
        if notes:
            self.note(notes, key, offset, suffix)
        if self.varieties is not None:
            self.varieties.text(key, suffix, offset, text)
        return status

    def _json(self, key: str, offset: int, size: int, read: Read, column: Column | None) -> str:
        if size > MOST_JSON:
            self.note(("json.huge",), key, offset)
            return UNKNOWN
        data = read(0, size)
        status, notes, value = look_at_json(data, self.wanted)
        if notes:
            self.note(notes, key, offset)
        if column is not None and status != BAD and (value is None or not column.surely_takes(value)):
            status = self._fit(column, status, key, offset, data)
        if self.varieties is not None:
            self.varieties.json(key, offset, value)
        if value:
            # One look-up each, for the many that are none: this is the hot loop of sets with json.
            if "conversations" in value or "messages" in value or "image_info" in value or "texts" in value:
                self._interleaved(key, offset, value)
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

    def _interleaved(self, key: str, offset: int, value: dict[str, object]) -> None:
        if found := interleaved(value):
            self.interleaved = self.interleaved or InterleavedCount()
            self.interleaved.see(key, offset, found)

    def _media(self, key: str, suffix: str, offset: int, size: int, read: Read) -> None:
        notes, found = media_notes(suffix, size, read)
        if notes:
            self.note(notes, key, offset, f"{suffix}: {found}" if found else suffix)

    def _fit(self, column: Column, status: str, key: str, offset: int, data: bytes) -> str:
        takes = column.takes(data)
        if takes is None:
            return UNKNOWN
        if column.unwritable:
            self.note(("column.unwritable",), key, offset, f"{column.suffix}: {column.unwritable}")
        if column.other_type:
            self.note(("column.other-type",), key, offset, column.suffix)
        if takes:
            return status
        self.note(("column.misfit",), key, offset, f"{column.suffix}: {column.said}")
        return status + MISFIT

    def _other(
        self,
        kind: str,
        suffix: str,
        key: str,
        offset: int,
        size: int,
        read: Read,
        count: FieldCount,
        column: Column | None,
    ) -> str:
        if kind not in ("integer", "pickle", "torch") and not self.full:
            return UNKNOWN
        if size > MOST_FIELD or (kind == "integer" and size > MOST_TEXT):
            self.note(("field.huge",), key, offset, suffix)
            return UNKNOWN
        data = b"" if kind in ("pickle", "torch") else read(0, size)
        status, notes = decode_other(kind, suffix, data)
        if notes:
            self.note(notes, key, offset, suffix)
        if kind == "npy" and status == OK:
            count.ranks |= 1 << (npy_rank(data) + 1)
        if column is not None and status == OK:
            return self._fit(column, status, key, offset, data) if size <= MOST_VALUE else UNKNOWN
        return status

    def finish(self) -> None:
        """Write what was collected into the shard's evidence."""
        self._count_runs()
        if self.interleaved is not None:
            self.interleaved.finish(self.shard)
        self.shard.captions.frequent = self.captions.counts()
        self.shard.frequent_images = self.images.counts()
        self.shard.image_sketch = self.image_hashes.values()
