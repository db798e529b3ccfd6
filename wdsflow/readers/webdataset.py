"""webdataset 0.2, up to the release that OpenCLIP pins, and 1.x."""

import re
from collections.abc import Sequence
from typing import ClassVar

from wdsflow.scan.evidence import BAD, BOMB, NOT_UTF8, Shape, ShardEvidence
from wdsflow.scan.naming import TALLIES
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .base import KEY, MARKED_BAD, URL, USABLE, Fate, Reader, Sample, first_of, first_repeat, is_marked_bad, lacking
from .wanted_fields import IMAGE_TROUBLE, IMAGES, OTHERS, PICKLES, TEXTS, reason_for, refused

_CAPTION = "txt"


class WebDataset1(Reader):
    """webdataset 1.x: ``WebDataset(urls, shardshuffle=False).decode("pil").to_tuple("jpg;png;jpeg;webp", "txt")``.

    With the default handlers every error is raised, also for shards that hold no sample at all. A mark at the end of each
    shard keeps samples of different shards apart.

    Cannot be known here: what a pickled field does (taken as valid); pipelines with custom handlers.

    Source: webdataset 1.0.2, compat.py, tariterators.py, autodecode.py, filters.py.
    """

    name = "webdataset-1"
    title = "webdataset 1.x (default handlers)"
    empty_raises = True
    decoded: ClassVar[frozenset[str]] = IMAGES | TEXTS | OTHERS | PICKLES | {"pkl"}
    path_field: ClassVar[str] = "__local_path__"  # set with the first member of a sample from a local file

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run."""
        repeat = first_repeat(shape, (KEY, URL), lower=True)
        repeat = repeat or next((part for part in shape[1:] if part.suffix.lower() == self.path_field), None)
        if repeat is not None:
            return (Fate("crash", "group", "duplicate-field", repeat.suffix),)
        sample: Sample = {part.suffix.lower(): part._replace(suffix=part.suffix.lower()) for part in shape}
        return (MARKED_BAD if is_marked_bad(sample) else self._fate(sample),)

    def _fate(self, sample: Sample) -> Fate:
        image = first_of(IMAGE_FIELDS, sample)
        for part in sample.values():
            if not part.suffix.startswith("__") and refused(part, self.decoded):
                return Fate("crash", "decode", reason_for(part, image, _CAPTION), part.suffix)
        return USABLE if image and _CAPTION in sample else lacking(image, _CAPTION in sample, "crash")


class WebDataset02(WebDataset1):
    """webdataset 0.2.86 or older: ``WebDataset(urls).decode("pil").to_tuple("jpg;png;jpeg;webp", "txt")``.

    Every error is raised, as in 1.x. Nothing marks the end of a shard: an open sample continues in the next shard if that
    begins with the same key, so that shards of one sample each, or with keys that begin at 0 again, raise for a field
    that occurs twice. Shards without a sample end silently.

    Source: webdataset 0.2.86, compat.py, tariterators.py, autodecode.py, filters.py.
    """

    name = "webdataset-0.2"
    title = "webdataset 0.2 (<= 0.2.86, default handlers)"
    empty_raises = False
    decoded = WebDataset1.decoded - {"pkl"}
    joins = True  # up to 0.2.88
    path_field = URL  # no other field is set


_OPENED = frozenset({"jpg", "png", "ppm", "pgm", "pbm", "pnm"})  # Image.open decodes no pixels
_DECODED = _OPENED | {"txt", "text", "cls", "cls2", "json", "npy", "mp", "pt", "pth", "pickle", "pkl"}
_PLAIN = frozenset({"txt", "json"})  # fields that it decodes as webdataset does
_TROUBLE = frozenset({BAD, BOMB, NOT_UTF8})
# Traits of tars that make no difference for it.
_ALIKE = frozenset(
    {
        *("tar.pax-overhead", "tar.directory", "tar.link", "tar.huge-member", "tar.trailing-data"),
        *("name.appledouble", "name.macosx", "name.dotted", "name.upper", "name.mixed-prefix", "name.not-ascii"),
    }
)
_FOREIGN = ("name.not-utf8", "name.junk-not-utf8")
_SAFE = re.compile(r"([a-z0-9]+://)?[\w./,=@%+-]+", re.ASCII)  # text that a shell and urlparse do not change
NOT_PARSED = "not-parsed"  # error of a shard for which wids raises when it opens it


class Wids(Reader):
    """``wids.ShardListDataset("shardindex.json")``, item by item, on the index of ``wdsflow index --wids``.

    All fields that it knows are decoded; images are only opened, and your code decodes one of .jpg, .png, .jpeg and .webp,
    the first that is there. Samples are read by number, here in the order of the index. A damaged shard is not in the
    index; one that is compressed, or has a name that is not UTF-8, raises when it is opened.

    Not known here, so that the verdict is not exact: shards whose headers its own tar parser may read in another way: it
    takes the first 100 bytes for the name, and tells members apart by name but finds contents by position. Also: fields
    that it decodes more leniently than webdataset, ``.pt`` fields, and paths of shards with characters that a shell or a
    url treats as special (wids runs ``cp {url} {local}``).
    Not known here, and not mentioned: other transformations, bytes after the end of a name, and old copies of shards in
    ``/tmp/_wids_cache``.

    Source: webdataset 0.2.86, wids/wids.py, wids_mmtar.py, wids_dl.py; webdataset 1.x comes without wids.
    """

    name = "wids"
    title = "wids 0.2 (ShardListDataset)"
    gives_none = True
    stand_in = "nothing"
    shares_samples = True
    sees_metadata = True
    unopened = "are damaged, and left out of its index"

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run."""
        sample: Sample = {part.suffix: part for part in shape}
        image = first_of(IMAGE_FIELDS, sample)
        for part in sample.values():
            if refused(part, _DECODED):
                return (Fate("crash", "decode", reason_for(part, image, _CAPTION), part.suffix),)
        if image is not None and image.status in IMAGE_TROUBLE:
            return (Fate("crash", "decode", reason_for(image, image, _CAPTION), image.suffix),)
        return (USABLE if image and _CAPTION in sample else lacking(image, _CAPTION in sample),)

    def opens(self, shard: ShardEvidence) -> bool:
        """Return whether a shard is in the index."""
        return shard.is_whole or shard.error == NOT_PARSED

    def as_read(self, shard: ShardEvidence) -> ShardEvidence:
        """Return a compressed shard as one that cannot be read."""
        if not shard.is_whole or shard.compression is None or not self.runs(shard).count:
            return shard
        found = ShardEvidence(shard.url, size=shard.size)
        found.fail(NOT_PARSED, f"it is compressed ({shard.compression})")
        return found

    def order(self, shards: Sequence[ShardEvidence]) -> list[list[ShardEvidence]]:
        """Return the shards of the index; all, if there is none."""
        return [[self.as_read(shard) for shard in shards if shard.is_whole] or list(shards)]

    def at_start(self, shards: Sequence[ShardEvidence]) -> Fate | None:
        """Return the crash of a set that has no index."""
        return None if any(map(self.opens, shards)) else Fate("crash", "group", "no-wids-index")

    def at_shard(self, shard: ShardEvidence) -> Fate | None:
        """Return the crash of a shard with a header that it does not decode."""
        if not shard.is_whole or not self.runs(shard).count or shard.tally("name.long").count:
            return None
        foreign = next((tally for name in _FOREIGN if (tally := shard.tally(name)).count), None)
        return None if foreign is None else Fate("crash", "group", "not-utf8-name", foreign.detail)

    def foresees(self, shards: Sequence[ShardEvidence]) -> bool:
        """Return whether all names will fit into headers, and differ from each other."""
        return not any(_unlike(shard, ("name.", "key.")) for shard in shards)

    def unknown(self, shards: Sequence[ShardEvidence]) -> str:
        """Return what is unknown of paths, or of pickled fields."""
        for shard in filter(self.opens, shards):
            if not _SAFE.fullmatch(shard.url.removeprefix("file:")):
                return f"wids passes paths to a shell, and whether it finds this one is not known: {shard.url}"
            if any(name.rpartition(".")[2] == "pt" for name in shard.fields):
                return "whether torch loads the .pt fields is not known here"
            if self.at_shard(shard):
                continue
            if names := sorted(_unlike(shard, ("tar.", "name.", "key."))):
                return f"wids has its own tar parser, which may find other samples: {TALLIES[names[0]]}"
            if any(not _decodes_alike(shape) for shape in shard.runs.shapes()):
                return "whether wids decodes all fields that webdataset refuses is not known here"
        return ""


def _unlike(shard: ShardEvidence, kinds: tuple[str, ...]) -> set[str]:
    """Return the traits of a shard that wids may read in another way."""
    found = (name for name, tally in shard.tallies.items() if tally.count and name not in _ALIKE)
    return {name for name in found if name.startswith(kinds)}


def _decodes_alike(shape: Shape) -> bool:
    """Return whether wids raises for the same fields as webdataset."""
    image = first_of(IMAGE_FIELDS, {part.suffix: part for part in shape})
    alike = {*_PLAIN, image.suffix if image else ""}
    return all(part.status not in _TROUBLE or part.suffix in alike for part in shape)
