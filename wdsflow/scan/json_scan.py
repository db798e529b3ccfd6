"""Json members of one shard: names that hold captions, and the order of texts and images."""

from collections.abc import Sequence

from wdsflow.scan.content.fitting import ColumnCheck
from wdsflow.scan.content.text_content import decode_json, texts_in

from .column_status import status_in_column
from .evidence import JsonKey, ScanOptions, ShardEvidence
from .interleaved import InterleavedCount, image_order
from .member_contents import MemberNotes, Read, read_all
from .shapes import Part, Shape
from .statuses import BAD, SUSPECT

# Bytes from which a json is reported as huge.
_LONG = 16 << 20
# Parsed, it takes several times as much.
_MOST = 64 << 20
# Names that are counted.
_NAMES = 64
# Kinds of runs that are counted before they are added up.
_RUNS = 1024
# Of runs, for which captions in json are counted separately.
_SHAPES = 256

# Names that hold a text, the shape of a run, and whether it has an image that trains.
_RunKind = tuple[tuple[str, ...], Shape, bool]


class JsonScanner:
    """Judges the json of one shard; call ``end_run`` after each run, ``finish`` after the last."""

    def __init__(self, shard: ShardEvidence, options: ScanOptions, notes: MemberNotes) -> None:
        self.shard = shard
        self.notes = notes
        self.caption_names = options.json_text_key
        self.nested = options.json_nested
        # Names that hold a text in the open run.
        self.open_names: list[str] = []
        # Most runs are alike.
        self.runs: dict[_RunKind, int] = {}
        # Made at the first json that orders texts and images.
        self.interleaved: InterleavedCount | None = None

    def status(self, column: ColumnCheck | None, size: int, read: Read) -> str:
        """Return the status of a json member."""
        if size > _LONG:
            self.notes.add(("json.huge",))
        data = read_all(size, read) if size <= _MOST else None
        if data is None:
            return SUSPECT
        status, notes, value = decode_json(data, self.caption_names, nested=self.nested)
        if notes:
            self.notes.add(notes)
        if column is not None and status != BAD:
            surely_fits = value is not None and column.certainly_fits(value)
            if not surely_fits:
                status = status_in_column(column, status, data, self.notes)
        if value:
            self._note_order(value)
            self._count_texts(value)
        return status

    def _note_order(self, value: dict[str, object]) -> None:
        """Take the order of texts and images, if the object has one."""
        # One look-up each, as most objects have none of these
        # names: this is the hot loop of sets with json.
        if not (
            "conversations" in value
            or "messages" in value
            or "image_info" in value
            or "texts" in value
        ):
            return
        order = image_order(value)
        if order is None:
            return
        if self.interleaved is None:
            self.interleaved = InterleavedCount()
        self.interleaved.add(self.notes.key, self.notes.offset, order)

    def _count_texts(self, value: dict[str, object]) -> None:
        """Count the names of an object that hold, or could hold, a caption."""
        keys = self.shard.json_keys
        for name, text, plain in texts_in(value):
            entry = keys.get(name)
            if entry is None:
                if len(keys) >= _NAMES:
                    continue
                entry = keys[name] = JsonKey()
            entry.count += 1
            if not text:
                continue
            entry.plain += plain
            self.open_names.append(name)
            if entry.varied:
                entry.strings += 1
            else:
                entry.note(text)

    def end_run(self, parts: Sequence[Part], *, has_image: bool) -> None:
        """Count the open run, which has these parts; ``has_image``: one that trains."""
        if self.open_names:
            kind = tuple(self.open_names), tuple(parts), has_image
            self.runs[kind] = self.runs.get(kind, 0) + 1
            self.open_names = []
            if len(self.runs) > _RUNS:
                self._count_runs()
        if self.interleaved is not None:
            self.interleaved.end(parts)

    def _count_runs(self) -> None:
        """Add to each name how often, and in which shapes of runs, it holds a text."""
        for (names, shape, has_image), count in self.runs.items():
            for name in names:
                entry = self.shard.json_keys[name]
                entry.with_image += count * has_image
                if shape in entry.shapes or len(entry.shapes) < _SHAPES:
                    entry.shapes[shape] = entry.shapes.get(shape, 0) + count
        self.runs.clear()

    def finish(self) -> None:
        """Write the counts into the shard's evidence."""
        self._count_runs()
        if self.interleaved is not None:
            self.interleaved.finish(self.shard)
