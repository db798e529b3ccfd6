"""Hugging Face datasets, with and without streaming."""

import sys
from collections.abc import Sequence
from copy import copy

from wdsflow.scan.content.fitting import (
    MOST_VALUE,
    InferredColumns,
    UnknownColumns,
    holds_value,
    infer,
    value_of,
)
from wdsflow.scan.content.other import kind_of
from wdsflow.scan.evidence import Runs, Shape, ShapeCount, ShardEvidence
from wdsflow.scan.naming import is_hidden
from wdsflow.shards.samples.grouping import Grouping, grouped
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.members import split_name
from wdsflow.shards.tar.walk import Walk

from .base import KEY, URL, USABLE, Fate, Options, Reader, first_of, first_repeat, lacking
from .wanted_fields import IMAGES, OTHERS, TEXTS, reason_for, refused

_TEXT_KEY = "txt"
_DECODED = TEXTS | OTHERS | {"pth"}
# NUMEXAMPLES_FOR_FEATURES_INFERENCE.
EXAMPLES = 5
_UNPACKED = frozenset({"bz2", "gzip", "lz4", "xz", "zst", "zstd"})
_MEDIA = frozenset(
    "aiff au avr caf flac htk svx mat4 mat5 mpc2k ogg paf pvf raw rf64 sd2 sds ircam voc w64 wav nist wavex wve xi mp3 opus "
    "mkv mp4 avi mpeg mov glb ply stl".split()
)


class Datasets(Reader):
    """``load_dataset("webdataset", data_files=[...], split="train", streaming=True)``, iterated to its end.

    The first five samples of the first shard must have the same fields; they become the columns,
    and a later sample gives None for a column that it lacks while its other fields are left out.
    Rows with None count as dropped here, because they would train as None. Every error is raised: a
    missing shard at once, all others where they lie. Names among the first samples must be UTF-8.

    The values of json, integers, arrays and msgpack in the first five samples give their columns
    types: they must agree, and fit into Arrow. Later values are converted to these types in Python,
    and what cannot be converted raises.

    Cannot be known here, so that the verdict is not exact: audio, video and mesh columns, which
    need further libraries; columns of cbor and tenbin; bz2, lz4, xz and zst fields, which it
    unpacks; values over 16 MiB.

    Source: datasets 5.2, packaged_modules/webdataset/webdataset.py, utils/file_utils.py,
    features/image.py.
    """

    name = "datasets"
    title = "Hugging Face datasets (streaming)"
    visible_only = True
    gives_none = True
    same_fields = True
    makes_columns = True

    def __init__(
        self, options: Options | None = None, columns: frozenset[str] | None = None
    ) -> None:
        super().__init__(options)
        # None: not known yet, every field counts.
        self.columns = columns
        # images are decoded.
        self.images = True

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of each sample of the run; it is one, but for a member .__key__ at the front."""
        return tuple(self._fate(sample) for sample in _samples(shape))

    def _fate(self, shape: Shape) -> Fate:
        repeat = first_repeat(shape[1:], {KEY, URL, shape[0].suffix}, lower=False)
        if repeat is not None:
            return Fate("crash", "group", "duplicate-field", repeat.suffix)
        fields = {part.suffix: part for part in shape}
        columns = frozenset(fields) if self.columns is None else self.columns
        image = first_of([key for key in IMAGE_FIELDS if key in columns], fields)
        lower = [(part, part._replace(suffix=part.suffix.lower())) for part in shape]
        for part, field in lower:
            if refused(field, _DECODED, loads_arrays=True):
                return Fate("crash", "decode", reason_for(part, image, _TEXT_KEY), part.suffix)
        for part, field in lower:
            if part.suffix not in columns:
                continue
            if self.images and refused(field, IMAGES):
                return Fate("crash", "decode", reason_for(part, image, _TEXT_KEY), part.suffix)
            if not part.fits:
                return Fate("crash", "batch", "types", part.suffix)
        caption = _TEXT_KEY in columns and _TEXT_KEY in fields
        return USABLE if image and caption else lacking(image, caption)

    def flushes(self, shard: ShardEvidence) -> bool:
        """Return whether the cut member has another key than the open sample: it looks at the name first."""
        last = self.runs(shard).last
        cut = shard.tally("tar.truncated-data").key
        if last is None or cut is None:
            return False
        # "folder/" is the key of a dot-file.
        return cut != last.key and not cut.endswith("/") and not is_hidden(cut)

    def bound_to(self, shards: Sequence[ShardEvidence]) -> "Datasets":
        """Return the reader with the columns that the first sample of the first shard gives."""
        shapes = _first_shapes(self.runs(shards[0])) if shards else []
        bound = copy(self)
        bound.columns = _fields(shapes[0]) if shapes else None
        return bound

    def at_start(self, shards: Sequence[ShardEvidence]) -> Fate | None:
        """Return the crash of a shard that is missing, or of the first samples, which must agree."""
        missing = next((shard for shard in shards if shard.error == "missing"), None)
        if missing is not None:
            return Fate("crash", "group", "unreadable-shard", missing.error_detail)
        if not shards:
            return None
        first = shards[0]
        if not self.opens(first):
            return Fate("crash", "group", "unreadable-shard", first.compression or "")
        shapes = _first_shapes(self.runs(first))
        # Images are not decoded yet.
        lookahead = Datasets(self.options, frozenset({KEY}))
        for shape in shapes:
            for fate in lookahead.fates(shape):
                if fate.kind == "crash":
                    return fate
        if self.runs(first).count + self.flushes(first) <= EXAMPLES and (
            crash := self.at_stop(first.stop)
        ):
            return crash
        if len({_fields(shape) for shape in shapes}) != 1:
            return Fate("crash", "group", "schema")
        if first.columns is not None and first.columns.error:
            return Fate("crash", "group", "types", first.columns.field)
        foreign = first.tally("name.not-utf8")
        if foreign.key is not None and (foreign.offset or 0) <= _last_known(self.runs(first)):
            return Fate("crash", "group", "not-utf8-name", foreign.key)
        return None

    def unknown(self, shards: Sequence[ShardEvidence]) -> str:
        """Return what is unknown of the columns, or of fields that only this reader unpacks."""
        first = _first_shapes(self.runs(shards[0])) if shards else []
        if not first:
            return ""
        for name in sorted(_fields(first[0])):
            if name.rpartition(".")[2].lower() in _MEDIA or kind_of(name.removesuffix(".gz")) in (
                "cbor",
                "tenbin",
            ):
                return f"what the column {name} converts to is not known here"
            if holds_value(name) and shards[0].columns is None:
                return f"the types in the column {name} were not looked at"
        for name in (name for shard in shards for name in shard.fields):
            if name.rpartition(".")[2] in _UNPACKED or (
                name.endswith(".gz") and kind_of(name[:-3]) == "image"
            ):
                return f"what it makes of the packed field {name} is not known here"
        return shards[0].columns.unknown if shards[0].columns is not None else ""


def _samples(shape: Shape) -> list[Shape]:
    """Cut a run: a member .__key__ at the front replaces the sample's key, and the next member begins another."""
    fronts = 0
    while fronts < len(shape) and shape[fronts].suffix == KEY:
        fronts += 1
    return [(part,) for part in shape[:fronts]] + ([shape[fronts:]] if fronts < len(shape) else [])


def _fields(shape: Shape) -> frozenset[str]:
    return frozenset(part.suffix for part in shape) - {KEY, URL}


def _last_known(runs: Runs) -> int:
    """Return an offset up to which all members belong to the first five runs, as large as is known."""
    if runs.head is None or runs.count <= EXAMPLES:
        return sys.maxsize
    return max(runs.head.offset, *(item.offset for item in _early(runs)))


def _early(runs: Runs) -> list[ShapeCount]:
    """Return the inner shapes that occur among the first five runs.

    A shape follows the head and the runs that were counted before it; those counts are not kept for
    the many shapes of an irregular shard.
    """
    return [
        item for index, item in enumerate(runs.inner) if 1 + max(index, sum(item.before)) < EXAMPLES
    ]


def _first_shapes(runs: Runs) -> list[Shape]:
    """Return the distinct shapes of samples among a shard's first five runs, the first sample's first."""
    if runs.head is None:
        return []
    shapes = [runs.head.shape, *(item.shape for item in _early(runs))]
    if runs.tail is not None and runs.count <= EXAMPLES:
        shapes.append(runs.tail.shape)
    return [sample for shape in shapes for sample in _samples(shape)]


def first_columns(url: Shard, *, allow_pipe: bool = False, tables: bool = False) -> InferredColumns:
    """Return the columns that the first samples of a shard give to Hugging Face datasets.

    Reads no further than these samples. Nothing is raised: if the columns cannot be determined,
    ``unknown`` is the reason. Fields that do not decode are left out, because the reader ends
    there. ``tables``: a reader
    writes all values to a table, so that Arrow's own types are needed.
    """
    try:
        rows = _rows(url, allow_pipe=allow_pipe)
        return infer(url, rows, tables=tables)
    except UnknownColumns as unknown:
        return InferredColumns(
            url, unknown=f"the columns of the first samples are not known: {unknown}"
        )
    except SourceError as error:
        return InferredColumns(url, unknown=f"the first samples could not be read: {error}")


def _rows(url: Shard, *, allow_pipe: bool) -> list[dict[str, object]]:
    """Return the values of each of the first samples by field name, of those fields that hold values."""
    rows: list[dict[str, object]] = []
    with open_source(url, allow_pipe=allow_pipe) as source:
        walk = Walk(source, contents=True)
        for begins, _, suffix, row in grouped(walk, _VISIBLE):
            if begins:
                if len(rows) == EXAMPLES:
                    return rows
                rows.append({})
            if not holds_value(suffix):
                continue
            if row[1] > MOST_VALUE or row[4] == "sparse":
                raise UnknownColumns(f"{suffix} is too large or sparse")
            try:
                rows[-1][suffix] = value_of(suffix, walk.read(row))
            except UnknownColumns:
                raise
            except Exception:  # noqa: BLE001 - decoders raise what they like; the scan counts such fields
                continue
    return rows


def _visible(name: str) -> tuple[str, str] | None:
    """Split a name as datasets does, which skips hidden members and no metadata."""
    key, suffix = split_name(name)
    return None if key is None or suffix is None or is_hidden(name) else (key, suffix)


_VISIBLE = Grouping(_visible)


class DatasetsTables(Datasets):
    """``load_dataset("webdataset", data_files=[...], split="train")``, without streaming, and its rows to their end.

    All shards are written to Arrow tables first: an error in any shard ends ``load_dataset``
    itself, and no row comes out. Images are decoded when a row is read. Tables are stricter than
    Python: an integer of more than 64 bits, text that is not Unicode, a value in a column that had
    only null, and a list of unlike values raise; so does any name that is not UTF-8.

    Cannot be known here, so that the verdict is not exact: what is not known of streaming; arrays
    (npy, npz) of several types, because Arrow refuses some mixtures within the 100 rows that are
    written together. Not looked at: whether the disk has room for the tables, which hold the
    contents of all shards.

    Source: datasets 5.2, packaged_modules/webdataset/webdataset.py, builder.py, arrow_writer.py.
    """

    name = "datasets-tables"
    title = "Hugging Face datasets as tables (not streaming)"
    writes_tables = True

    def preparation(self, shards: Sequence[ShardEvidence]) -> Datasets:
        """Return the pass that writes the tables; it decodes no image."""
        writing = _Writing(self.options)
        writing.images = False
        return writing

    def unknown(self, shards: Sequence[ShardEvidence]) -> str:
        """Return what is unknown of columns, or which column has arrays of several types."""
        mixed = next(
            (tally for shard in shards if (tally := shard.tally("column.other-type")).count), None
        )
        if mixed is not None:
            return f"whether the arrays in {mixed.detail} can be written depends on which rows are written together"
        return super().unknown(shards)


class _Writing(DatasetsTables):
    """The pass over all shards that writes tables."""

    def preparation(self, shards: Sequence[ShardEvidence]) -> None:  # type: ignore[override]
        """Return None: this is the preparation."""

    def at_shard(self, shard: ShardEvidence) -> Fate | None:
        """Return the crash of a value or a name that cannot be written."""
        unwritable = shard.tally("column.unwritable")
        if unwritable.count:
            return Fate("crash", "batch", "table", unwritable.detail.partition(": ")[0])
        foreign = shard.tally("name.not-utf8")
        return None if foreign.key is None else Fate("crash", "batch", "not-utf8-name", foreign.key)
