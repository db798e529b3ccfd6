"""Ray Data."""

from collections.abc import Sequence

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Shape
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .base import (
    KEY,
    MARKED_BAD,
    USABLE,
    Fate,
    Reader,
    Sample,
    fate_of_incomplete,
    first_of,
    first_repeat,
    is_marked_bad,
)
from .wanted_fields import IMAGE_TROUBLE, OTHER_TROUBLE, TEXT_TROUBLE, reason_for

_TEXT_KEY = "txt"
# Extensions that the default decoder decodes: to arrays, which must become tensors.
_PICTURES = ("jpg", "png", "ppm", "pgm", "pbm", "pnm")
_ARRAYS = frozenset({*_PICTURES, "npy"})
# Statuses with which each decoder raises.
_TROUBLE = {
    **dict.fromkeys(("txt", "text"), TEXT_TROUBLE),
    **dict.fromkeys(_PICTURES, IMAGE_TROUBLE),
    **dict.fromkeys(("cls", "cls2", "json", "npy", "mp"), OTHER_TROUBLE),
}
# It refuses to unpickle.
_FORBIDDEN = frozenset({"pt", "pth", "pickle", "pkl"})


class RayData(Reader):
    """``ray.data.read_webdataset(paths)`` with the default decoder, every row taken.

    Field names keep their case. jpeg and webp come as bytes, which count as images here. Every
    error fails the whole read; so does a sample without a decoded image (or array) that the first
    sample of its block has: the column cannot become a tensor. Arrow unpacks shards whose names end
    in .gz, .bz2 or .zst, all streams of a file as one.

    Cannot be known here: how many rows came out before an error; where blocks begin, which hold up
    to 128 MiB and can span shards (a shard is taken for one block). So the verdict is not exact
    where images or arrays of one field differ in their number of dimensions, or hold what Arrow has
    no tensor of. Json of any types passes: what Arrow refuses stays as Python objects.

    Source: ray 2.60, data/_internal/datasource/webdataset_datasource.py.
    """

    name = "ray-data"
    title = "Ray Data (read_webdataset)"
    sees_metadata = True
    gives_none = True
    same_fields = True
    through_arrow = True
    in_parallel = True

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run."""
        repeat = first_repeat(shape, {KEY}, lower=False)
        if repeat is not None:
            return (Fate("crash", "group", "duplicate-field", repeat.suffix),)
        sample: Sample = {part.suffix: part for part in shape}
        if is_marked_bad(sample):
            return (MARKED_BAD,)
        return (self._fate(sample),)

    def _fate(self, sample: Sample) -> Fate:
        image = first_of(IMAGE_FIELDS, sample)
        for part in sample.values():
            if part.suffix.startswith("__"):
                continue
            extension = part.suffix.rpartition(".")[2]
            if extension in _FORBIDDEN:
                return Fate("crash", "decode", "unsafe-field", part.suffix)
            if part.status in _TROUBLE.get(extension, ()):
                reason = reason_for(part, image, _TEXT_KEY)
                return Fate("crash", "decode", reason, part.suffix)
        has_caption = _TEXT_KEY in sample
        return USABLE if image and has_caption else fate_of_incomplete(image, has_caption)

    def crash_at_shard(self, shard: ShardEvidence) -> Fate | None:
        """Return the crash of this reader for a shard, if it raises.

        It raises for a key that comes back, a name that is not UTF-8, and a column that not all
        samples have.
        """
        for again in (shard.tally("key.again"), shard.tally("key.again-junk")):
            if again.count:
                return Fate("crash", "group", "key-again", again.key or "")
        foreign = shard.tally("name.not-utf8")
        if foreign.key is not None:
            return Fate("crash", "batch", "not-utf8-name", foreign.key)
        rows = self._rows(shard)
        if not rows:
            return None
        for field in rows[0]:
            if field.rpartition(".")[2] in _ARRAYS and not all(field in row for row in rows):
                return Fate("crash", "batch", "schema", field)
        return None

    def _rows(self, shard: ShardEvidence) -> list[Sample]:
        """Return a sample of each shape that becomes rows."""
        rows = []
        for item in self.runs(shard).shape_counts():
            sample: Sample = {part.suffix: part for part in item.shape}
            if not is_marked_bad(sample):
                rows.append(sample)
        return rows

    def why_uncertain(self, shards: Sequence[ShardEvidence]) -> str:
        """Return which field has arrays that may not fit into one tensor."""
        for shard in shards:
            for name, totals in shard.fields.items():
                ranks = totals.ranks
                # More than one bit is set.
                has_several_ranks = ranks & (ranks - 1) != 0
                has_no_tensor = ranks & 1 != 0
                is_array = name.rpartition(".")[2] in _ARRAYS
                if is_array and (has_several_ranks or has_no_tensor):
                    return (
                        f"whether {name} fits into one tensor depends on where Ray's blocks begin"
                    )
        return ""

    def opens(self, shard: ShardEvidence) -> bool:
        """Return whether it can read the shard; Arrow unpacks zstd where the name ends so."""
        return super().opens(shard) or shard.url.endswith(".zst")

    def as_read(self, shard: ShardEvidence) -> ShardEvidence:
        """Return the shard as Arrow unpacks it: by its name, all streams of it as a whole."""
        return shard.by_arrow or shard
