"""The base class of readers, and how they cut a run into samples.

A run is a sequence of adjacent members with one key.
"""

from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.shapes import Part, Runs, Shape
from wdsflow.scan.statuses import EMPTY
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import IMAGES
from wdsflow.shards.tar.members import Stop

FateKind = Literal["usable", "dropped", "crash"]

# Readers keep these next to the fields, so a member with such a field name counts as a repetition.
KEY, URL, BAD_MARK = "__key__", "__url__", "__bad__"
LOCAL_PATH = "__local_path__"
# Names that some reader sets itself: a member of such a name harms its sample.
RESERVED = frozenset({KEY, URL, LOCAL_PATH, "__shard__", "__restore_key__", "__sources__"})

# By the field name as the reader keeps it.
Sample = dict[str, Part]


class Fate(NamedTuple):
    """The result of one sample that a reader formed."""

    kind: FateKind
    # Where it ended; "batch" if usable.
    stage: Literal["group", "filter", "decode", "batch"]
    # A slug: "no-caption", "no-image", "bad-image", "bad-field", "duplicate-field", ...
    reason: str = ""
    # The field at fault, as in the tar.
    detail: str = ""


USABLE = Fate("usable", "batch")
MARKED_BAD = Fate("dropped", "group", "marked-bad", BAD_MARK)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a reader, under open_clip_train's names; defaults are those of an unset flag."""

    image_key: str = IMAGES
    text_key: str = "txt"
    json_text_key: str | None = None
    max_image_pixels: int = 25_000_000
    seed: int = 0
    epoch: int = 0
    # Loader processes a rank; 0 counts as one.
    workers: int = 1
    world_size: int = 1
    resampled: bool = False


def split_names(keys: str | None) -> tuple[str, ...]:
    """Split names as open_clip's flags give them.

    >>> split_names("txt; caption;")
    ('txt', 'caption')
    """
    names = [key.strip() for key in (keys or "").split(";")]
    return tuple(name for name in names if name)


class Reader(ABC):
    """How one reader groups members into samples, which it drops, and when it ends or hangs.

    Stateless and cheap: ``fates`` is called once for each distinct shape.
    """

    name: ClassVar[str]
    # For reports: "OpenCLIP 3.3.0 (webdataset <= 0.2.86)".
    title: ClassVar[str]
    # Skips hidden members before it groups, and no metadata.
    visible_only: ClassVar[bool] = False
    # Takes metadata members (__name__) as samples.
    sees_metadata: ClassVar[bool] = False
    # Arrow unpacks shards before it reads them, by their names.
    through_arrow: ClassVar[bool] = False
    # Hangs if no sample passes; otherwise it ends.
    empty_stalls: ClassVar[bool] = False
    # Gives rows with None where image or caption is missing; they count as dropped.
    gives_none: ClassVar[bool] = False
    # Reads shards in parallel: which samples come before an exception is unknown.
    in_parallel: ClassVar[bool] = False
    # Counts dropped samples, and reports them.
    reports_losses: ClassVar[bool] = False
    # If it cannot take a sample or a shard; otherwise it continues with the next.
    raises: ClassVar[bool] = True
    # The end of a shard is not marked: the next one may continue its last sample.
    joins: ClassVar[bool] = False
    # Expects the fields of the first samples in all.
    same_fields: ClassVar[bool] = False
    # The first samples' values decide the types of later ones.
    makes_columns: ClassVar[bool] = False
    # Writes all values to Arrow tables before the first sample comes out.
    writes_tables: ClassVar[bool] = False
    # Raises where a pass forms no sample at all.
    empty_raises: ClassVar[bool] = False
    # Raises where no sample of a pass is usable: it skipped too many in a row.
    gives_up: ClassVar[bool] = False
    # Takes no two samples of one key in a folder.
    keys_once: ClassVar[bool] = False
    # Of shards that ``opens`` refuses: "shards that ..."
    unopened: ClassVar[str] = "it does not open"
    # OpenCLIP's own loader: a training command states how it runs, and is forecast.
    runs_training_command: ClassVar[bool] = False
    # Flags of OpenCLIP 4 name its fields, and the name of captions in json.
    takes_field_flags: ClassVar[bool] = False
    # Raises where no sample of ``--val-data`` is usable; otherwise it reports no figures.
    empty_evaluation_raises: ClassVar[bool] = False
    # Trains on one image and one caption (or label) of a sample; others give all of its fields.
    takes_one_pair: ClassVar[bool] = False
    # A pipeline of the user, to which stages can be added.
    takes_stages: ClassVar[bool] = False
    # Loads a folder by Hugging Face's ``load_dataset``.
    loads_folders: ClassVar[bool] = False
    # A map of fields in its settings says where captions are.
    takes_field_map: ClassVar[bool] = False
    # Finds samples by an index, which is written before.
    reads_index: ClassVar[bool] = False
    # Needed in addition to the image.
    pairs_with: ClassVar[Literal["caption", "label"]] = "caption"
    # Other names of fields that this reader requires, but
    # does not accept: the name -> the required name.
    aliases: ClassVar[Mapping[str, str]] = {}

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()

    def image_fields(self) -> tuple[str, ...]:
        """Return the fields that this reader takes as the image, in its order of preference."""
        return split_names(self.options.image_key)

    def paired_fields(self) -> tuple[str, ...]:
        """Return the fields that it takes for the caption, or for the label; see ``pairs_with``."""
        names = split_names(self.options.text_key)
        # The text_key of wdsflow's feed may list json among others.
        return (*names, "json") if self.options.json_text_key else names

    def scan_options(self, options: ScanOptions) -> ScanOptions:
        """Return the options of a scan with what this reader's own options ask of contents."""
        return options

    @abstractmethod
    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of each sample that this reader forms of one run, in order.

        Nothing after a fate of kind "crash" is reached.
        """

    def crash_at_stop(self, stop: Stop) -> Fate | None:
        """Return the crash of this reader where reading a shard stops, None without one.

        It may raise for a shard that cannot be opened or is cut inside a member.
        """
        reason = {"unreadable": "unreadable-shard", "error": "truncated-shard"}.get(stop.kind)
        if not self.raises or reason is None:
            return None
        return Fate("crash", "group", reason, stop.detail)

    def order(self, shards: Sequence[ShardEvidence]) -> list[list[ShardEvidence]]:
        """Return the shards of each worker, in the order in which it reads them in its epoch.

        Workers are listed rank by rank.
        """
        return [[self.as_read(shard) for shard in shards]]

    def as_read(self, shard: ShardEvidence) -> ShardEvidence:
        """Return the evidence of a shard as this reader sees it.

        It differs if the reader does not read the tar as others do.
        """
        return shard

    def runs(self, shard: ShardEvidence) -> Runs:
        """Return the runs of a shard for this reader."""
        if self.visible_only and shard.visible_runs is not None:
            return shard.visible_runs
        if self.sees_metadata and not self.visible_only and shard.all_runs is not None:
            return shard.all_runs
        return shard.runs

    def opens(self, shard: ShardEvidence) -> bool:
        """Return whether this reader can read a shard of this compression.

        tarfile does not support zstd.
        """
        return shard.compression in (None, "gz", "bz2", "xz")

    def why_not_opened(self, url: Shard) -> str:
        """Return why this reader cannot open a shard by its url; "" if it can."""
        return ""

    def yields_open_sample(self, shard: ShardEvidence) -> bool:
        """Return whether the open sample still comes out before the error at the end of a shard."""
        return False

    def bound_to(self, shards: Sequence[ShardEvidence]) -> "Reader":
        """Return the reader after it looked at the first shards; itself if it infers nothing."""
        return self

    def crash_at_start(self, shards: Sequence[ShardEvidence]) -> Fate | None:
        """Return a crash if this reader raises before the first sample comes out."""
        return None

    def preparing_reader(self, shards: Sequence[ShardEvidence]) -> "Reader | None":
        """Return the reader that reads all shards before the first sample comes out, or None.

        This reader raises the crash of that one.
        """
        return None

    def why_uncertain(self, shards: Sequence[ShardEvidence]) -> str:
        """Return why the fates are not certain even after a full scan; "" if they are."""
        return ""

    def crash_at_shard(self, shard: ShardEvidence) -> Fate | None:
        """Return a crash if this reader raises for a fact about a whole shard."""
        return None


def split_at_repeats(shape: Shape) -> list[Sample]:
    """Cut a run into samples as OpenCLIP's ``group_by_keys_nothrow`` does.

    A repeated field begins a new sample.
    """
    samples: list[Sample] = []
    # A member .__key__ replaces the sample's key, so that no later member belongs to it.
    is_closed = True
    for part in shape:
        suffix = part.suffix.lower()
        if is_closed or suffix in samples[-1] or suffix in (KEY, URL):
            samples.append({})
        samples[-1][suffix] = Part(suffix, part.status)
        is_closed = suffix == KEY
    return samples


def first_repeat(shape: Shape, reserved: Container[str], *, lower: bool) -> Part | None:
    """Return the first member whose field repeats or is reserved, None if there is none."""
    seen: set[str] = set()
    for part in shape:
        suffix = part.suffix.lower() if lower else part.suffix
        if suffix in seen or suffix in reserved:
            return part
        seen.add(suffix)
    return None


def is_marked_bad(sample: Sample) -> bool:
    """Return whether readers drop a sample because of a ``.__bad__`` member that is not empty."""
    mark = sample.get(BAD_MARK)
    return mark is not None and mark.status != EMPTY


def first_of(names: Sequence[str], sample: Sample) -> Part | None:
    """Return the sample's first field among ``names``, as webdataset's ``getfirst`` does.

    The order is that of ``names``. None if the sample has none of them.
    """
    return next((sample[name] for name in names if name in sample), None)


def fate_of_incomplete(
    image: object, paired: object, kind: FateKind = "dropped", pairs_with: str = "caption"
) -> Fate:
    """Return the fate of a sample that lacks its image, its caption (or label), or both.

    ``image`` and ``paired`` are None or False if absent.
    """
    if image:
        reason = f"no-{pairs_with}"
    elif paired:
        reason = "no-image"
    else:
        reason = f"no-image-or-{pairs_with}"
    return Fate(kind, "filter", reason)
