"""Ray Data."""

from ..evidence import Shape, ShardEvidence, Stop
from .base import USABLE, Consumer, Fate
from .fields import IMAGE_TROUBLE, OTHER_TROUBLE, TEXT_TROUBLE, reason_for
from .grouping import KEY, MARKED_BAD, Sample, first_of, first_repeat, incomplete, is_marked_bad

_IMAGE_KEYS = ("jpg", "png", "jpeg", "webp")
_TEXT_KEY = "txt"
_TROUBLE = {
    **dict.fromkeys(("txt", "text"), TEXT_TROUBLE),
    **dict.fromkeys(("jpg", "png", "ppm", "pgm", "pbm", "pnm"), IMAGE_TROUBLE),
    **dict.fromkeys(("cls", "cls2", "json", "npy", "mp"), OTHER_TROUBLE),
}
_FORBIDDEN = frozenset({"pt", "pth", "pickle", "pkl"})


class RayData(Consumer):
    """``ray.data.read_webdataset(paths)`` with the default decoder, every row taken.

    Field names keep their case. It decodes jpg and png, but gives jpeg and webp as bytes, which count as images here.
    Every error fails the whole read: a missing or cut shard, a field twice, a field that does not decode, a key that
    comes back after it was left, a pickled field.

    The reader also gives rows without image or caption; here they count as dropped, because they would train as None.

    Cannot be known here: how many rows came out before an error, since shards are read in parallel.

    Source: ray 2.60, data/_internal/datasource/webdataset_datasource.py.
    """

    name = "ray-data"
    title = "Ray Data (read_webdataset)"

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run."""
        repeat = first_repeat(shape, {KEY}, lower=False)
        if repeat is not None:
            return (Fate("crash", "group", "duplicate-field", repeat.suffix),)
        sample: Sample = {part.suffix: part for part in shape}
        return (MARKED_BAD if is_marked_bad(sample) else self._fate(sample),)

    def _fate(self, sample: Sample) -> Fate:
        image = first_of(_IMAGE_KEYS, sample)
        for part in sample.values():
            extension = part.suffix.rpartition(".")[2]
            if part.suffix.startswith("__"):
                continue
            if extension in _FORBIDDEN or part.status in _TROUBLE.get(extension, ()):
                reason = "unsafe-field" if extension in _FORBIDDEN else reason_for(part, image, _TEXT_KEY)
                return Fate("crash", "decode", reason, part.suffix)
        return incomplete(image is not None, _TEXT_KEY in sample, "dropped") or USABLE

    def at_stop(self, stop: Stop) -> Fate | None:
        """Return a crash for a shard that cannot be opened or is cut inside a member."""
        if stop.kind == "unreadable":
            return Fate("crash", "group", "unreadable-shard", stop.detail)
        if stop.kind == "error":
            return Fate("crash", "group", "truncated-shard", stop.detail)
        return None

    def joins(self, stop: Stop) -> bool:
        """Return False: each shard is grouped for itself."""
        return False

    def at_shard(self, shard: ShardEvidence) -> Fate | None:
        """Return a crash where a key comes back after other keys: since 2026 it refuses what is not adjacent."""
        again = shard.tally("key.again")
        return Fate("crash", "group", "key-again", again.key or "") if again.count else None

    def opens(self, shard: ShardEvidence) -> bool:
        """Tell whether it can read the shard; Arrow unpacks zstd where the name ends so."""
        return super().opens(shard) or shard.url.endswith((".zst", ".zstd"))
