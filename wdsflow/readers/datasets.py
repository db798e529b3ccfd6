"""Hugging Face datasets, streaming."""

import sys
from collections.abc import Sequence
from copy import copy

from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.content.fitting import holds_value
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import is_hidden
from wdsflow.scan.shapes import Part, Runs, Shape, ShapeCount
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .base import (
    KEY,
    URL,
    USABLE,
    Fate,
    Options,
    Reader,
    fate_of_incomplete,
    first_of,
    first_repeat,
)
from .datasets_columns import EXAMPLES
from .wanted_fields import IMAGES, OTHERS, TEXTS, decoding_raises, reason_for

_TEXT_KEY = "txt"
_DECODED = TEXTS | OTHERS | {"pth"}
# Extensions of packed fields that it unpacks.
_UNPACKED = frozenset({"bz2", "gzip", "lz4", "xz", "zst", "zstd"})
# Extensions of columns that need further libraries: audio, video, meshes.
_MEDIA = frozenset(
    "aiff au avr caf flac htk svx mat4 mat5 mpc2k ogg paf pvf raw rf64 sd2 sds ircam voc w64 wav nist wavex wve xi mp3 opus "
    "mkv mp4 avi mpeg mov glb ply stl".split()
)


class Datasets(Reader):
    """Hugging Face ``load_dataset("webdataset", ...)`` with ``streaming=True``, read to its end.

    The full call is ``load_dataset("webdataset", data_files=[...], split="train",
    streaming=True)``.

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
    loads_folders = True
    visible_only = True
    gives_none = True
    same_fields = True
    makes_columns = True

    def __init__(
        self, options: Options | None = None, columns: frozenset[str] | None = None
    ) -> None:
        super().__init__(options)
        # None: not determined yet, every field counts.
        self.columns = columns
        self.decodes_images = True

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of each sample of the run.

        A run is one sample, unless it begins with a member .__key__.
        """
        return tuple(self._fate(sample) for sample in _samples(shape))

    def _fate(self, shape: Shape) -> Fate:
        repeat = first_repeat(shape[1:], {KEY, URL, shape[0].suffix}, lower=False)
        if repeat is not None:
            return Fate("crash", "group", "duplicate-field", repeat.suffix)
        fields = {part.suffix: part for part in shape}
        columns = frozenset(fields) if self.columns is None else self.columns
        image = first_of([key for key in IMAGE_FIELDS if key in columns], fields)
        # All values are decoded first, then images, in columns.
        for part in shape:
            if decoding_raises(_in_lower_case(part), _DECODED, loads_arrays=True):
                return Fate("crash", "decode", reason_for(part, image, _TEXT_KEY), part.suffix)
        for part in shape:
            if part.suffix not in columns:
                continue
            if self.decodes_images and decoding_raises(_in_lower_case(part), IMAGES):
                return Fate("crash", "decode", reason_for(part, image, _TEXT_KEY), part.suffix)
            if not part.fits:
                return Fate("crash", "batch", "types", part.suffix)
        has_caption = _TEXT_KEY in columns and _TEXT_KEY in fields
        return USABLE if image and has_caption else fate_of_incomplete(image, has_caption)

    def yields_open_sample(self, shard: ShardEvidence) -> bool:
        """Return whether a member that is cut has another key than the open sample.

        The reader looks at the name first, so the open sample then comes out.
        """
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

    def crash_at_start(self, shards: Sequence[ShardEvidence]) -> Fate | None:
        """Return the crash of a missing shard, or of first samples that do not agree.

        None if there is no crash.
        """
        for shard in shards:
            if shard.error == "missing":
                return Fate("crash", "group", "unreadable-shard", shard.error_detail)
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
        if self.runs(first).count + self.yields_open_sample(first) <= EXAMPLES:
            crash = self.crash_at_stop(first.stop)
            if crash is not None:
                return crash
        if len({_fields(shape) for shape in shapes}) != 1:
            return Fate("crash", "group", "schema")
        if first.columns is not None and first.columns.error:
            return Fate("crash", "group", "types", first.columns.field)
        foreign = first.tally("name.not-utf8")
        end = _end_of_examples(self.runs(first))
        if foreign.key is not None and (foreign.offset or 0) <= end:
            return Fate("crash", "group", "not-utf8-name", foreign.key)
        return None

    def why_uncertain(self, shards: Sequence[ShardEvidence]) -> str:
        """Return what is unknown of the columns, or of fields that only this reader unpacks."""
        shapes = _first_shapes(self.runs(shards[0])) if shards else []
        if not shapes:
            return ""
        columns = shards[0].columns
        for name in sorted(_fields(shapes[0])):
            if _has_unknown_type(name):
                return f"what the column {name} converts to is not known here"
            if holds_value(name) and columns is None:
                return f"the types in the column {name} were not looked at"
        for shard in shards:
            for name in shard.fields:
                if _is_packed(name):
                    return f"what it makes of the packed field {name} is not known here"
        return "" if columns is None else columns.unknown


def _samples(shape: Shape) -> list[Shape]:
    """Cut a run into samples at members .__key__ at its front.

    Such a member replaces the sample's key, so the next member begins another sample.
    """
    samples: list[Shape] = []
    keys = 0
    while keys < len(shape) and shape[keys].suffix == KEY:
        samples.append((shape[keys],))
        keys += 1
    if keys < len(shape):
        samples.append(shape[keys:])
    return samples


def _fields(shape: Shape) -> frozenset[str]:
    return frozenset(part.suffix for part in shape) - {KEY, URL}


def _in_lower_case(part: Part) -> Part:
    return part._replace(suffix=part.suffix.lower())


def _has_unknown_type(name: str) -> bool:
    """Return whether it is unknown here what a column converts to."""
    if name.rpartition(".")[2].lower() in _MEDIA:
        return True
    return kind_of(name.removesuffix(".gz")) in ("cbor", "tenbin")


def _is_packed(name: str) -> bool:
    """Return whether it unpacks a field that is not unpacked here."""
    if name.rpartition(".")[2] in _UNPACKED:
        return True
    return name.endswith(".gz") and kind_of(name.removesuffix(".gz")) == "image"


def _end_of_examples(runs: Runs) -> int:
    """Return the largest offset up to which all members are known to be in the first five runs."""
    if runs.head is None or runs.count <= EXAMPLES:
        return sys.maxsize
    return max(runs.head.offset, *(item.offset for item in _early(runs)))


def _early(runs: Runs) -> list[ShapeCount]:
    """Return the inner shapes that occur among the first five runs.

    A shape follows the head and the runs that were counted before it; those counts are not kept for
    the many shapes of an irregular shard.
    """
    early = []
    for index, item in enumerate(runs.inner):
        runs_before = 1 + max(index, sum(item.before))
        if runs_before < EXAMPLES:
            early.append(item)
    return early


def _first_shapes(runs: Runs) -> list[Shape]:
    """Return the distinct shapes of samples among a shard's first five runs.

    The shape of the first sample comes first.
    """
    if runs.head is None:
        return []
    shapes = [runs.head.shape, *(item.shape for item in _early(runs))]
    if runs.tail is not None and runs.count <= EXAMPLES:
        shapes.append(runs.tail.shape)
    return [sample for shape in shapes for sample in _samples(shape)]
