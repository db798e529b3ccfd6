"""NVIDIA DALI."""

from collections.abc import Sequence

from wdsflow.scan.evidence import Shape, ShardEvidence
from wdsflow.scan.naming import TALLIES
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .base import USABLE, Fate, Reader, lacking
from .wanted_fields import IMAGE_TROUBLE

_CAPTION = "txt"
_BLOCK = 512  # bytes
_ALIKE = frozenset(("jpeg", "webp", "png"))  # formats of which it accepts the same as Pillow, if they are whole
_DECODED = _ALIKE | {"bmp", "tiff", "ppm", "jp2"}
_DOUBTFUL = ("image.bomb", "image.undecodable", "image.damaged")
# Traits of tars that make no difference for it.
_SAME = frozenset(
    {
        *("tar.pax-overhead", "tar.directory", "tar.link", "tar.no-end-blocks", "tar.huge-member", "tar.trailing-data"),
        *("name.not-utf8", "name.junk-not-utf8", "name.not-ascii", "name.appledouble", "name.macosx", "name.dotted"),
        *("name.upper", "name.mixed-prefix"),
    }
)
_FILES = ("name.no-field", "name.meta")  # samples for it, but not for others


class Dali(Reader):
    """``fn.readers.webdataset(paths=shards, ext=["jpg;jpeg;png;webp", "txt"])`` and ``fn.decoders.image(device="cpu")``.

    All shards are read when the pipeline is built, and one that cannot be read ends that with an exception: no sample comes
    out. A file without an extension is a sample of its own, and so are metadata (``__info__``) and a shard without files:
    the run ends there. A field that a sample lacks comes as an empty tensor, for which the decoder raises.

    Not known here, so that the verdict is not exact: shards whose headers its tar parser may read in another way, damaged
    images, images of more pixels than Pillow allows, and other formats than JPEG, WebP and PNG.
    Not known here, and not mentioned: other values of ``missing_component_behavior``, ``dont_use_mmap``, ``index_paths``
    (an index of ``wdsflow index --dali`` gives it the samples that readers in Python find), decoding on a GPU, and how
    your code treats bytes that are not UTF-8.

    Source: DALI 2.4, operators/reader/loader/webdataset_loader.cc and webdataset/tar_utils.cc, libtar 1.2.20.
    """

    name = "dali"
    title = "NVIDIA DALI 2.4 (fn.readers.webdataset)"
    gives_none = True
    stand_in = "an empty tensor"
    shares_samples = True
    undecoded = frozenset({"gif"})

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run."""
        image = next((part for part in shape if part.suffix in IMAGE_FIELDS), None)
        caption = next((part for part in shape if part.suffix == _CAPTION), None)
        if image is None:
            reason = "no-field" if not shape else "no-image-or-caption" if caption is None else "no-image"
            return (Fate("crash", "decode", reason),)
        if image.status in IMAGE_TROUBLE:
            return (Fate("crash", "decode", "bad-image", image.suffix),)
        return (USABLE if caption else lacking(image, caption),)

    def opens(self, shard: ShardEvidence) -> bool:
        """Return whether the shard is not compressed."""
        return shard.compression is None

    def at_start(self, shards: Sequence[ShardEvidence]) -> Fate | None:
        """Return a crash if a shard cannot be read to its end, or if there are fewer samples than ranks."""
        for shard in shards:
            if self.opens(shard) and shard.error is None and (why := _damage(shard)):
                return Fate("crash", "group", "unreadable-shard", why)
        ranks = self.options.world_size
        if ranks == 1 or sum(self.runs(shard).count for shard in shards if self.opens(shard)) >= ranks:
            return None
        return Fate("crash", "group", "fewer-than-ranks")

    def at_shard(self, shard: ShardEvidence) -> Fate | None:
        """Return a crash for a shard with a file that is a sample for it alone, or with an image that it refuses."""
        empty = not shard.members and shard.runs.head is None
        if shard.error is None and (empty or any(shard.tally(name).count for name in _FILES)):
            return Fate("crash", "decode", "no-field")
        return Fate("crash", "decode", "bad-image") if refused_images(shard) else None

    def preparation(self, shards: Sequence[ShardEvidence]) -> "Dali | None":
        """Return the pass over all headers."""
        return _Building(self.options)

    def unknown(self, shards: Sequence[ShardEvidence]) -> str:
        """Return which header or image it may read in another way."""
        if any(self.opens(shard) and _damage(shard) for shard in shards):
            return ""  # the pass over the headers raises
        for shard in shards:
            for name, tally in shard.tallies.items():
                if tally.count and name.startswith(("tar.", "name.")) and name not in _SAME:
                    return f"DALI has its own tar parser, which may find other samples: {TALLIES[name]}"
                if tally.count and name in _DOUBTFUL:
                    return f"whether DALI decodes {tally.detail} in {tally.key} is not known here"
            if others := sorted(shard.images.formats.keys() - _ALIKE):
                return f"whether DALI decodes every {others[0]} in {shard.url} is not known here"
        return ""

    def foresees(self, shards: Sequence[ShardEvidence]) -> bool:
        """Return whether Pillow's judgement on the images is DALI's."""
        return not any(
            shard.images.formats.keys() - _ALIKE or any(shard.tally(name).count for name in _DOUBTFUL)
            for shard in shards
        )


class _Building(Dali):
    """The pass over the headers of all shards, which takes all samples."""

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        return (USABLE,)

    def at_start(self, shards: Sequence[ShardEvidence]) -> None:
        """Return None: the samples are counted afterwards."""

    def preparation(self, shards: Sequence[ShardEvidence]) -> None:
        """Return None: this is the preparation."""

    def at_shard(self, shard: ShardEvidence) -> None:
        """Return None: nothing is decoded."""


def refused_images(shard: ShardEvidence) -> int:
    """Return how many images it does not decode, under names of other formats."""
    formats = shard.images.formats
    fields = {name: count.count for name, count in shard.fields.items()}
    return sum(max(0, formats[name] - fields.get(name, 0)) for name in formats.keys() - _DECODED)


def _damage(shard: ShardEvidence) -> str:
    """Return why the pass over the headers raises; "" if it does not."""
    if shard.stop.kind not in ("end", "eof"):
        return shard.stop.detail
    rest = shard.size - shard.stop.offset if shard.size and shard.stop.offset else 0
    return "the file ends inside a block" if 0 < rest < 2 * _BLOCK and rest != _BLOCK else ""
