"""The results of one pass over the shards. Rules and readers look here, never at a tar.

Its size grows with the number of shards, not of samples: samples are counted by *shape*, and of
each kind of problem only the first location and the number of locations are kept.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wdsflow.shards.shard import Shard
from wdsflow.shards.tar.members import Stop

from .shapes import Runs, Shape

if TYPE_CHECKING:
    from wdsflow.scan.content.caption_encoding import EncodingGuess
    from wdsflow.scan.content.fitting import InferredColumns

Level = Literal["names", "headers", "full"]

# Field names that are counted; of more, only their extensions.
_MOST_FIELDS = 256


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How deep to look, and what readers need to know about contents."""

    level: Level = "headers"
    json_text_key: tuple[str, ...] = ()
    # These names may be paths with dots, and lists hold captions: as wdsflow's own feed reads them.
    json_nested: bool = False
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


@dataclass(slots=True)
class Tally:
    """How often, and where first, something was seen."""

    count: int = 0
    key: str | None = None
    offset: int | None = None
    detail: str = ""

    def add(self, key: str | None, offset: int | None, detail: str = "", count: int = 1) -> None:
        """Count ``count`` more; the first call sets the location."""
        if not self.count:
            self.key = key
            self.offset = offset
            self.detail = detail
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
    """One name in the JSON members of a shard.

    "meta.caption" is the name caption of an object under meta.
    """

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
        both_have_one = self.example and other.example
        differ = bool(both_have_one) and self.example != other.example
        self.varied = self.varied or other.varied or differ
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
    # Valid members after the byte where readers stop.
    beyond: int = 0
    # Of the samples, those that are wholly after that byte.
    samples_after_stop: int = 0
    stop: Stop = field(default_factory=Stop)
    # As webdataset forms them.
    runs: Runs = field(default_factory=Runs)
    # Without hidden members (Hugging Face); None: the same as runs.
    visible_runs: Runs | None = None
    # With metadata members (Ray Data); None: the same as runs.
    all_runs: Runs | None = None
    # Of the runs, those whose key other keys had interrupted.
    resumed_runs: dict[Shape, int] = field(default_factory=dict)
    fields: dict[str, FieldCount] = field(default_factory=dict)
    # Of its first samples, in the first shard if a reader makes columns.
    columns: "InferredColumns | None" = None
    # Names: see tallies.py.
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
    # Of a preview of a repair: members or samples, by the fix of their structure.
    fixed: Counter[str] = field(default_factory=Counter)
    # As Arrow unpacks it by its name (Ray Data); None: as all others read it.
    by_arrow: "ShardEvidence | None" = None

    @property
    def is_whole(self) -> bool:
        """Whether ``wdsflow index`` accepts the shard; it refuses one without an end mark."""
        refused = ("tar.second-archive", "tar.damaged-stream", "tar.sparse")
        is_refused = any(self.tally(name).count for name in refused)
        return self.error is None and self.stop.kind == "end" and not is_refused

    @property
    def has_samples(self) -> bool:
        """Whether a reader may find a sample.

        Also true if all members are in a folder __MACOSX, whose keys are not counted.
        """
        joined = (
            len(run.shape) > 1 and not run.key.endswith("/") for run in self.runs.shape_counts()
        )
        return bool(self.samples) or any(joined)

    @property
    def is_distrusted(self) -> bool:
        """Whether its compressed stream is damaged so that none of its bytes can be trusted."""
        damaged = self.tally("tar.damaged-stream")
        return damaged.count > 0 and not damaged.offset

    def fail(self, error: str, detail: str, *, fix: str = "", offset: int = 0) -> None:
        """Set why nothing can be read."""
        self.error = error
        self.error_detail = detail
        self.error_fix = fix
        self.stop = Stop("unreadable", offset, detail)

    def field_count(self, name: str) -> FieldCount:
        """Return the counts of a field, creating them if necessary.

        ``name`` is in lower case.
        """
        if name not in self.fields and len(self.fields) >= _MOST_FIELDS:
            extension = name.rpartition(".")[2]
            name = f"*.{extension[:16]}"
        return self.fields.setdefault(name, FieldCount())

    def tally(self, name: str) -> Tally:
        """Return the tally of that name, an empty one if nothing was counted."""
        return self.tallies.get(name) or Tally()


@dataclass(frozen=True, slots=True)
class Gap:
    """A missing number within numbered shards, or a brace range that names missing files."""

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
