"""The results of one pass over the shards. Rules and readers look here, never at a tar.

Its size grows with the number of shards, not of samples: samples are counted by *shape*, and of
each kind of problem only the first location and the number of locations are kept.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from wdsflow.shards.shard import Shard
from wdsflow.shards.tar.members import Stop

if TYPE_CHECKING:
    from wdsflow.scan.content.caption_encoding import EncodingGuess
    from wdsflow.scan.content.fitting import InferredColumns

Level = Literal["names", "headers", "full"]

# The contents of a field as a decoder would find them. UNKNOWN where the level did not look.
OK, UNKNOWN, OPAQUE = "ok", "?", "-"
# Its decoder would raise.
BAD = "bad"
# Images: the same, with the reason.
CUT, NOT_IMAGE, MARKUP = "cut", "not-image", "markup"
# The same: it needs a library that is not installed here.
NO_LIBRARY = "no-library"
# The same, whatever it holds: its name ends in .gz, and it cannot be unpacked.
NOT_ZIPPED = "not-zipped"
# An npz that opens, with an array in it that does not load: not all decoders load it.
PARTLY = "partly"
# A finding speaks of it, and it could not be decoded: it is among the samples that may be lost.
SUSPECT = "suspect"
# Captions: no bytes; white space only; not text.
EMPTY, BLANK, NOT_UTF8 = "empty", "blank", "not-utf8"
# Readable json without a usable string under the wanted names.
NO_CAPTION = "no-caption"
# Pillow refuses it from the header: more than twice its MAX_IMAGE_PIXELS.
BOMB = "bomb"
# Over the reader's pixel limit; decodable or not.
BIG, BIG_BAD = "big", "big-bad"
# Pickled: never opened by us.
UNSAFE = "unsafe"
# Follows any status: the value does not fit the type of its column, see ``Part.fits``.
MISFIT = "!"


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How deep to look, and what readers need to know about contents."""

    level: Level = "headers"
    json_text_key: tuple[str, ...] = ()
    # 0: no limit.
    max_image_pixels: int = 0
    allow_pipe: bool = False
    # Fields that are captions under unusual names.
    text_key: tuple[str, ...] = ()
    # The same for images.
    image_key: tuple[str, ...] = ()
    # Some reader reads through Arrow.
    arrow: bool = False
    # Into which values must fit.
    columns: "InferredColumns | None" = None

    def kinds(self) -> dict[str, str]:
        """Return the kinds of the named fields; a field with its own decoder keeps it."""
        return dict.fromkeys(self.image_key, "image") | dict.fromkeys(self.text_key, "text")


class Part(NamedTuple):
    """One member for a reader: the field name as in the tar, and the status of its contents."""

    suffix: str
    status: str
    # False: Hugging Face datasets cannot convert the value
    # to the type of the first samples' values.
    fits: bool = True


Shape = tuple[Part, ...]


class Run(NamedTuple):
    """Neighbouring members that share one key, in the order of the tar."""

    key: str
    # Of the first member's header, bytes from the start of the (uncompressed) tar.
    offset: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class ShapeCount:
    """How often, and where first, a shape occurs among the inner runs of a shard."""

    shape: Shape
    count: int
    key: str
    offset: int
    # Counts of the shapes listed earlier, at this shape's first occurrence.
    before: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs of a shard. The ends are kept apart: a reader may join them with the neighbouring shards."""

    head: Run | None = None
    inner: tuple[ShapeCount, ...] = ()
    # None where the shard has fewer than two runs.
    tail: Run | None = None

    @property
    def count(self) -> int:
        """How many runs there are."""
        return (
            sum(item.count for item in self.inner)
            + (self.head is not None)
            + (self.tail is not None)
        )

    @property
    def last(self) -> Run | None:
        """The last run, which may be the only one."""
        return self.tail or self.head

    def counted(self, *, with_tail: bool = True) -> Iterator[ShapeCount]:
        """Yield the shapes: that of the first run, those between, that of the last run, which may be among the others.

        ``with_tail=False`` leaves out the last run, which a cut may have damaged.
        """
        if self.head is not None and (with_tail or self.tail is not None):
            yield ShapeCount(self.head.shape, 1, self.head.key, self.head.offset)
        yield from self.inner
        if self.tail is not None and with_tail:
            yield ShapeCount(self.tail.shape, 1, self.tail.key, self.tail.offset)

    def shapes(self) -> set[Shape]:
        """Return the distinct shapes."""
        return {item.shape for item in self.counted()}


@dataclass(slots=True)
class Tally:
    """How often, and where first, something was seen."""

    count: int = 0
    key: str | None = None
    offset: int | None = None
    detail: str = ""

    def add(self, key: str | None, offset: int | None, detail: str = "", count: int = 1) -> None:
        """Count ``count`` more; the first call fixes the place."""
        if not self.count:
            self.key, self.offset, self.detail = key, offset, detail
        self.count += count


@dataclass(slots=True)
class FieldCount:
    """Members of one field name (lower case; wild names folded to ``*.ext``)."""

    count: int = 0
    # 0 at level "names".
    bytes: int = 0
    largest: int = 0
    # Bit n + 1: as an array it has n dimensions; bit 0: Arrow has no tensor of it. Of images, and
    # at "full" of npy.
    ranks: int = 0


@dataclass(slots=True)
class JsonKey:
    """One name in the json members of a shard; "meta.caption" is the name caption of an object under meta."""

    # Objects that have it.
    count: int = 0
    # With a string of more than white space, or a list that has one.
    strings: int = 0
    # Of those, in a run that has a decodable jpg, png, jpeg or webp.
    with_image: int = 0
    # The first such string, cut to 60 characters.
    example: str = ""
    # Of the strings, those in no list and no other object.
    plain: int = 0
    # Some string is not like the first one.
    varied: bool = False
    # Of the strings, by the shape of the run that they are in.
    shapes: dict[Shape, int] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Count one more string."""
        self.strings += 1
        if not self.example:
            self.example = text[:60]
        elif not self.varied:
            self.varied = text[:60] != self.example

    def add(self, other: "JsonKey") -> None:
        """Add the counts of the same name in another shard."""
        self.varied = self.varied or other.varied or "" != self.example != other.example != ""
        self.count += other.count
        self.strings += other.strings
        self.with_image += other.with_image
        self.plain += other.plain
        self.example = self.example or other.example


@dataclass(slots=True)
class ImageFacts:
    """Facts from image headers (levels "headers" and "full")."""

    count: int = 0
    # Sum over images.
    pixels: int = 0
    # Pixels of the largest.
    largest: int = 0
    bytes: int = 0
    # By magic bytes: "jpeg", "png", ...
    formats: dict[str, int] = field(default_factory=dict)
    # Pillow's names where known.
    modes: dict[str, int] = field(default_factory=dict)
    # Floor(log2(pixels)) -> images.
    megapixels: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class CaptionFacts:
    """Facts about txt captions (levels "headers" and "full")."""

    count: int = 0
    characters: int = 0
    longest: int = 0
    # Misra-Gries lower bounds, cut to 80 characters.
    frequent: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class ShardEvidence:
    """All facts of one shard."""

    url: Shard
    # Bytes as stored.
    size: int | None = None
    # "gz", "bz2", "xz", "zst".
    compression: str | None = None
    # "missing", "denied", "io", "not-a-tar", "empty": nothing could be read.
    error: str | None = None
    error_detail: str = ""
    # A command that would make it readable, where one is known.
    error_fix: str = ""
    # Regular files that tarfile would deliver.
    members: int = 0
    # Their contents.
    member_bytes: int = 0
    # Distinct keys, and samples that dots in base names have merged into one; no junk such as
    # AppleDouble twins, but those after a stop.
    samples: int = 0
    # Valid members after the place where readers stop.
    beyond: int = 0
    # Of the samples, those that are wholly after that place.
    unreached: int = 0
    stop: Stop = field(default_factory=Stop)
    # As webdataset forms them.
    runs: Runs = field(default_factory=Runs)
    # Without hidden members (Hugging Face); None: the same as runs.
    visible_runs: Runs | None = None
    # With metadata members (Ray Data); None: the same as runs.
    all_runs: Runs | None = None
    # Of the runs, those whose key other keys had interrupted.
    again: dict[Shape, int] = field(default_factory=dict)
    fields: dict[str, FieldCount] = field(default_factory=dict)
    # Of its first samples, in the first shard if a reader makes columns.
    columns: "InferredColumns | None" = None
    # Names: see naming.py.
    tallies: dict[str, Tally] = field(default_factory=dict)
    json_keys: dict[str, JsonKey] = field(default_factory=dict)
    # Json of texts with images, see interleaved.py.
    interleaved: dict[str, int] = field(default_factory=dict)
    # Files of one sample have numbers (0.jpg, 1.jpg), next
    # to a field without: no dots in base names.
    numbered: bool = False
    images: ImageFacts = field(default_factory=ImageFacts)
    captions: CaptionFacts = field(default_factory=CaptionFacts)
    # Of the captions that are not UTF-8; None if all are.
    encoding: "EncodingGuess | None" = None
    # The 64 smallest 32-bit hashes of keys: shards that share keys share these.
    key_sketch: tuple[int, ...] = ()
    # The same for keys of macOS twins and dot-files in folders.
    junk_sketch: tuple[int, ...] = ()
    # The first and last key of both kinds, in the order of their characters.
    key_span: tuple[str, str] | None = None
    # The same for image bytes (level "full").
    image_sketch: tuple[int, ...] = ()
    # Hash -> Misra-Gries lower bound ("full").
    frequent_images: dict[int, int] = field(default_factory=dict)
    bytes_read: int = 0
    seconds: float = 0.0
    # Of a preview of a repair: members or samples, by the fix of their structure.
    fixed: Counter[str] = field(default_factory=Counter)
    # As Arrow unpacks it by its name (Ray Data); None: as all others read it.
    by_arrow: "ShardEvidence | None" = None

    @property
    def is_whole(self) -> bool:
        """Whether ``wdsflow index`` accepts the shard; it refuses one without an end mark."""
        refused = ("tar.second-archive", "tar.damaged-stream", "tar.sparse")
        found = any(self.tally(name).count for name in refused)
        return self.error is None and self.stop.kind == "end" and not found

    @property
    def has_samples(self) -> bool:
        """Whether a reader may find a sample: also if all members are in a folder __MACOSX, whose keys are not counted."""
        joined = (len(run.shape) > 1 and not run.key.endswith("/") for run in self.runs.counted())
        return bool(self.samples) or any(joined)

    @property
    def is_distrusted(self) -> bool:
        """Whether its compressed stream is damaged so that none of its bytes can be trusted."""
        damaged = self.tally("tar.damaged-stream")
        return damaged.count > 0 and not damaged.offset

    def fail(self, error: str, detail: str, *, fix: str = "", offset: int = 0) -> None:
        """Set why nothing can be read."""
        self.error, self.error_detail, self.error_fix = error, detail, fix
        self.stop = Stop("unreadable", offset, detail)

    def tally(self, name: str) -> Tally:
        """Return the tally of that name, an empty one if nothing was counted."""
        return self.tallies.get(name) or Tally()


@dataclass(frozen=True, slots=True)
class Gap:
    """A number missing in the middle of numbered shards, or a brace range that names files which do not exist."""

    pattern: str
    # At most 20 names.
    missing: tuple[str, ...]
    count: int


@dataclass(slots=True)
class Evidence:
    """All facts of all shards, in the order in which the urls named them."""

    level: Level
    shards: list[ShardEvidence] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def samples(self) -> int:
        """Distinct keys, summed over shards."""
        return sum(shard.samples for shard in self.shards)
