"""NVIDIA DALI."""

from collections.abc import Sequence

from wdsflow.scan.evidence import Shape, ShardEvidence
from wdsflow.scan.through_dali import CAPTION, PAST_END, UNDECIDED, decodes_alike
from wdsflow.shards.field_names import IMAGE_FIELDS

from .base import USABLE, Fate, Reader
from .grouping import incomplete
from .wanted_fields import IMAGE_TROUBLE


class Dali(Reader):
    """``fn.readers.webdataset(paths=shards, ext=["jpg;jpeg;png;webp", "txt"])`` and ``fn.decoders.image(device="cpu")``.

    All shards are read when the pipeline is built, and one that is missing, compressed, cut or damaged ends that with an
    exception: no sample comes out. PAX headers are skipped, with the names and sizes in them. Field names keep their
    case. Of several fields for one output, and of a field that occurs twice, the first counts, and no others are looked
    at. A file without an extension is a sample of its own, and so is a shard without files.

    A field that a sample lacks comes as an empty tensor. The decoder raises for one in place of an image, as for an
    image that it cannot decode, and the whole run ends. Without a caption, the sample would train with none: it counts as
    dropped. The process dies at an empty caption which ends a shard without end blocks.

    Ranks (``shard_id``, ``num_shards``) share the samples, not the shards: each reads all shards at the start. An epoch
    has as many samples as there are, the last batch is filled up from the next epoch.

    Whole JPEG, WebP, PNG and BMP decode as with Pillow. GIF and the formats that Pillow knows alone are refused.

    Cannot be known here, so that the verdict is not exact: damaged JPEG, WebP and BMP, PNG with damage outside of its
    pixels or with very long texts, TIFF, JPEG 2000 and PNM, and images of more pixels than Pillow allows. A damaged
    image that Pillow refuses is taken as one that ends the run.
    Cannot be known here, and not said: other values of ``missing_component_behavior`` (with "skip", samples without an
    image or a caption are left out; with "error", one of them ends the run at the start), ``dont_use_mmap``,
    ``index_paths`` (an index of ``wdsflow index --dali`` gives it the samples that readers in Python find), decoding on
    a GPU, and what your code makes of bytes that are not UTF-8.

    Source: DALI 2.4, operators/reader/loader/webdataset_loader.cc and webdataset/tar_utils.cc, libtar 1.2.20.
    """

    name = "dali"
    title = "NVIDIA DALI 2.4 (fn.readers.webdataset)"
    gives_none = True
    stand_in = "an empty tensor"
    shares_samples = True
    undecoded = frozenset({"gif"})
    own_parser = True

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run."""
        image = next((part for part in shape if part.suffix in IMAGE_FIELDS), None)
        caption = next((part for part in shape if part.suffix == CAPTION), None)
        if caption is not None and caption.status == PAST_END:
            return (Fate("crash", "group", "past-end", CAPTION),)
        if image is None:
            reason = "no-field" if not shape else "no-image-or-caption" if caption is None else "no-image"
            return (Fate("crash", "decode", reason),)
        if image.status in IMAGE_TROUBLE:
            return (Fate("crash", "decode", "bad-image", image.suffix),)
        return (incomplete(image=True, paired=caption is not None, kind="dropped") or USABLE,)

    def opens(self, shard: ShardEvidence) -> bool:
        """Return whether the shard is not compressed."""
        return shard.compression is None

    def at_start(self, shards: Sequence[ShardEvidence]) -> Fate | None:
        """Return a crash if there are fewer samples than ranks."""
        ranks = self.options.world_size
        if ranks == 1 or sum(shard.runs.count for shard in shards if self.opens(shard)) >= ranks:
            return None
        return Fate("crash", "group", "fewer-than-ranks")

    def preparation(self, shards: Sequence[ShardEvidence]) -> "Dali | None":
        """Return the pass over all headers."""
        return _Building(self.options)

    def unknown(self, shards: Sequence[ShardEvidence]) -> str:
        """Return which image may or may not be decoded."""
        for shard in shards:
            undecided = self.as_read(shard).tally(UNDECIDED)
            if undecided.count:
                return f"whether DALI decodes {undecided.detail} in {undecided.key} is not known here"
        return ""

    def foresees(self, shards: Sequence[ShardEvidence]) -> bool:
        """Return whether Pillow's judgement on the images is DALI's."""
        return all(map(decodes_alike, shards))


class _Building(Dali):
    """The pass over the headers of all shards, which takes all samples."""

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return that the sample is taken."""
        return (USABLE,)

    def at_start(self, shards: Sequence[ShardEvidence]) -> None:
        """Return None: the samples are counted afterwards."""

    def preparation(self, shards: Sequence[ShardEvidence]) -> None:
        """Return None: this is the preparation."""
