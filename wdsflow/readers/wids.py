"""wids, webdataset's random access by an index."""

import re
from collections.abc import Sequence

from wdsflow.scan.evidence import Shape, ShardEvidence
from wdsflow.scan.through_wids import MIXED, NOT_PARSED, OPENED, foreseen
from wdsflow.shards.field_names import IMAGE_FIELDS

from .base import USABLE, Fate, Reader
from .grouping import Sample, first_of, incomplete
from .wanted_fields import IMAGE_TROUBLE, reason_for, refused

_CAPTION = "txt"
_DECODED = OPENED | {"txt", "text", "cls", "cls2", "json", "npy", "mp", "pt", "pth", "pickle", "pkl"}
_SAFE = re.compile(r"([a-z0-9]+://)?[\w./,=@%+-]+", re.ASCII)  # what a shell and urlparse leave as it is


class Wids(Reader):
    """``wids.ShardListDataset("shardindex.json")``, item by item, on the index of ``wdsflow index --wids``.

    All fields that it knows are decoded; images (.jpg, .png, .ppm) are only opened, and your code decodes one of .jpg,
    .png, .jpeg and .webp, the first that is there. Field names keep their case. A sample without an image or a caption
    comes without this field, and counts as dropped. Everything that does not decode is an exception, when its sample is
    read: samples are read by number, here in the order of the index. No workers or ranks are needed to know the result.

    A damaged shard is not in the index: its samples are lost. The tar parser is wids's own. It raises when it opens a
    shard that is compressed, or has a size in base 256, or 100 bytes of a name that are not UTF-8, as where a longer name
    is cut inside a letter. It takes the first 100 bytes for the name: no PAX records, GNU long names and prefixes are
    read. Members with the name of another one shift all after them, so that samples mix. Members of samples that are not
    adjacent are several samples. ``__meta__.json`` and dot-files are samples.

    Cannot be known here, so that the verdict is not exact: paths of shards with characters that a shell or a url treats
    as special (wids runs ``cp {url} {local}``), and ``.pt`` fields.
    Cannot be known here, and not said: other transformations, bytes after the end of a name, and old copies of shards:
    wids keeps them in ``/tmp/_wids_cache`` (``WIDS_CACHE``) by path, and reads them instead of shards that were written
    again.

    Source: webdataset 0.2.86, wids/wids.py, wids_mmtar.py, wids_dl.py; webdataset 1.x comes without wids.
    """

    name = "wids"
    title = "wids 0.2 (ShardListDataset)"
    gives_none = True
    stand_in = "nothing"
    shares_samples = True
    own_parser = True
    unopened = "are damaged, and left out of its index"

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run."""
        sample: Sample = {part.suffix: part for part in shape}
        image = first_of(IMAGE_FIELDS, sample)
        for part in sample.values():
            if part.status == MIXED:
                return (Fate("crash", "group", "mixed-keys"),)
            if refused(part, _DECODED):
                return (Fate("crash", "decode", reason_for(part, image, _CAPTION), part.suffix),)
        if image is not None and image.status in IMAGE_TROUBLE:
            return (Fate("crash", "decode", reason_for(image, image, _CAPTION), image.suffix),)
        return (incomplete(image is not None, _CAPTION in sample, "dropped") or USABLE,)

    def opens(self, shard: ShardEvidence) -> bool:
        """Return whether a shard is in the index."""
        return shard.is_whole or shard.error == NOT_PARSED

    def order(self, shards: Sequence[ShardEvidence]) -> list[list[ShardEvidence]]:
        """Return the shards of the index; all, if there is none."""
        return [[self.as_read(shard) for shard in shards if shard.is_whole] or list(shards)]

    def at_start(self, shards: Sequence[ShardEvidence]) -> Fate | None:
        """Return the crash of a set that has no index, else None."""
        return None if any(map(self.opens, shards)) else Fate("crash", "group", "no-wids-index")

    def foresees(self, shards: Sequence[ShardEvidence]) -> bool:
        """Return whether all names will fit into headers, and differ from each other."""
        return all(map(foreseen, shards))

    def unknown(self, shards: Sequence[ShardEvidence]) -> str:
        """Return what is not known of paths, or of pickled fields."""
        for shard in filter(self.opens, shards):
            if not _SAFE.fullmatch(shard.url.removeprefix("file:")):
                return f"wids passes paths to a shell, and whether it finds this one is not known: {shard.url}"
            if any(name.rpartition(".")[2] == "pt" for name in shard.fields):
                return "whether torch loads the .pt fields is not known here"
        return ""
