"""Base classes of scores: a named number, truth value or text for each sample, with its cost tier.

A score is a frozen dataclass whose fields are its settings, or a function: see ``simple_score``. It
reads a sample through a ``View``, which reads and decodes each part once, and only if needed.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args
from unicodedata import unidata_version

from wdsflow.installed import version_of
from wdsflow.text.install import install_extras

from ..base import ClassFacts, check_choice
from .sample_fields import ScoreError as ScoreError  # noqa: PLC0414 - scores import it from here
from .sample_fields import parse_captions, parse_images

if TYPE_CHECKING:
    from wdsflow.images.header import ImageHeader
    from wdsflow.tables import Tables

    from .picture import Picture
    from .sample_fields import ImageField
    from .sample_view import View
    from .video_facts import VideoFacts


Tier = Literal["header", "text", "pixels", "model"]
Kind = Literal["number", "boolean", "text"]
Subject = Literal["image", "video", "caption", "sample"]
Among = Literal["all", "kept"]
Count = Literal["plain", "data-juicer"]
Scalar = float | int | bool | str | None
Value = Scalar | list[Scalar]
# Shard, sample, what ``gather`` returned.
Records = Iterable[tuple[int, int, bytes]]

# Cheap first.
TIERS: tuple[Tier, ...] = get_args(Tier)
# Bytes.
MEMORY = 256 << 20
# Annotation of a setting -> the types of its values.
_SETTING_TYPES: dict[object, tuple[type, ...]] = {
    bool: (bool,),
    int: (int,),
    float: (float, int),
    str: (str,),
}


class Tolerance(NamedTuple):
    """How much decoding at a reduced scale changes the value of a score at most, in photographs."""

    most: float
    # "of the value", "bits", ...
    of: str = ""


# The effect on the value depends on the model: some look at edges, some at colours.
SEEN_PIXELS = Tolerance(0.5, "levels of 255 in the pixels that the model sees, on average")


@dataclass(frozen=True, kw_only=True)
class Score(ClassFacts):
    """Base of all scores.

    ``name`` is its name in predicates. ``low`` and ``high`` bound the values of a number, if there
    are bounds. ``needs`` names the required extras of wdsflow. ``packages`` are the distributions
    whose versions affect a value, and ``optional`` those that may be missing; "unicode" is Python's
    table of characters. ``revision`` counts changes of the definition. Versions and revision belong
    to the identity. ``gpus`` is the share of a GPU for each process: 0.25 if four may share one.
    ``scale_tolerance``: None if nothing is decoded at a reduced scale, or if that does not change
    values. ``small_is_good``: whether a threshold usually keeps the smaller numbers; suggestions
    follow it. ``cpu_seconds``: about how long one core takes for a sample with the default model,
    if that is known to be long.
    """

    name: ClassVar[str]
    tier: ClassVar[Tier]
    kind: ClassVar[Kind] = "number"
    unit: ClassVar[str] = ""
    low: ClassVar[float | None] = None
    high: ClassVar[float | None] = None
    subject: ClassVar[Subject] = "sample"
    needs: ClassVar[tuple[str, ...]] = ()
    packages: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()
    gpus: ClassVar[float] = 0.0
    scale_tolerance: ClassVar[Tolerance | None] = None
    small_is_good: ClassVar[bool] = False
    cpu_seconds: ClassVar[float | None] = None
    revision: ClassVar[int] = 1
    # Of settings, both ends included.
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}

    def __post_init__(self) -> None:
        """Refuse settings of a wrong type, and impossible field names.

        Subclasses call this first.
        """
        for item in fields(self):
            if item.init:
                self._check_type(item.name, item.type)
        for names in (getattr(self, "image", ""), getattr(self, "video", "")):
            if names:
                parse_images(names)
        caption = getattr(self, "caption", "")
        if caption:
            parse_captions(caption)
        for setting, (low, high) in self.ranges.items():
            value = getattr(self, setting)
            if not low <= value <= high:
                raise ValueError(
                    f"{self.name}: {setting}={value!r} must be from {low:,} to {high:,}"
                )

    def _check_type(self, setting: str, annotation: object) -> None:
        """Raise ValueError if a setting has a value of another type than its annotation."""
        value = getattr(self, setting)
        check_choice(self.name, setting, value, annotation)
        types = _SETTING_TYPES.get(annotation)
        # Not isinstance: True is an int, too.
        if types is not None and type(value) not in types:
            allowed = " or ".join(kind.__name__ for kind in types)
            raise ValueError(f"{self.name}: {setting}={value!r} must be of type {allowed}")

    if TYPE_CHECKING:
        # BatchScore takes other arguments.
        score: ClassVar[Any]
    else:

        @abstractmethod
        def score(self, view: "View") -> Value:
            """Return the value of one sample.

            It is a list if the sample has several images or captions. Raises ScoreError.
            """

    def check_files(self) -> None:
        """Raise ValueError if a file that a setting names cannot be used.

        Called before the first sample.
        """

    @property
    def keeps_small(self) -> bool:
        """Whether a threshold usually keeps the smaller numbers, with these settings."""
        return self.small_is_good

    @classmethod
    def meaning(cls) -> str:
        """Return the first line of the definition."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    def settings(self) -> dict[str, object]:
        """Return the settings by name."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.init}

    def versions(self) -> dict[str, str | None]:
        """Return the versions of the libraries that affect a value."""
        return versions_of(*self.packages, *self.optional)

    @classmethod
    def check_installed(cls) -> None:
        """Raise ValueError if a package of an extra is not installed: each sample would fail."""
        if not cls.needs:
            return
        for package in cls.packages:
            if version_of(package) is None:
                raise ValueError(f"{cls.name} needs {package}: {install_extras(*cls.needs)}")

    def identity(self) -> dict[str, object]:
        """Return everything that a value depends on besides the sample.

        That is the score's name, revision and settings, and the versions of libraries.
        """
        return {
            "name": self.name,
            "revision": self.revision,
            "settings": self.settings(),
            "versions": self.versions(),
        }


@dataclass(frozen=True, kw_only=True)
class ImageScore(Score, subject="image"):
    """A score of each image.

    ``image`` names the field, "" means that of the view: see ``parse_images``.
    """

    image: str = ""


class HeaderScore(ImageScore, tier="header"):
    """A score from an image's header."""

    @abstractmethod
    def of(self, header: "ImageHeader") -> Scalar:
        """Return the value of one image."""

    def score(self, view: "View") -> Value:
        return single_or_list([self.of(header) for header in view.headers(self.image)])


class PixelScore(ImageScore, tier="pixels", packages=("pillow", "simplejpeg")):
    """A score from an image's pixels.

    All such scores share one decoded picture: see ``Picture``.
    """

    @abstractmethod
    def of(self, picture: "Picture") -> Scalar:
        """Return the value of one image."""

    def score(self, view: "View") -> Value:
        return single_or_list([self.of(picture) for picture in view.pictures(self.image)])


class FieldScore(ImageScore, tier="header"):
    """A score from parts of an encoded image."""

    @abstractmethod
    def of(self, image: "ImageField") -> Scalar:
        """Return the value of one image."""

    def score(self, view: "View") -> Value:
        return single_or_list([self.of(image) for image in view.image_parts(self.image)])


@dataclass(frozen=True, kw_only=True)
class VideoScore(Score, tier="header", subject="video", needs=("video",), packages=("av",)):
    """A score from each video's header.

    ``video`` names the field, "" is mp4, webm, mkv, avi or mov.
    """

    video: str = ""

    @abstractmethod
    def of(self, facts: "VideoFacts") -> Scalar:
        """Return the value of one video."""

    def score(self, view: "View") -> Value:
        return single_or_list([self.of(facts) for facts in view.videos(self.video)])


@dataclass(frozen=True, kw_only=True)
class TextScore(Score, tier="text", subject="caption"):
    """A score of each caption.

    ``caption`` names its field, "" means that of the view: see ``parse_captions``.
    """

    caption: str = ""

    @abstractmethod
    def of(self, text: str) -> Scalar:
        """Return the value of one caption."""

    def score(self, view: "View") -> Value:
        return single_or_list([self.of(text) for text in view.captions(self.caption)])


@dataclass(frozen=True, kw_only=True)
class DatasetScore(Score):
    """A score that compares each sample with all others, in two passes.

    1. ``gather(view)`` reads one sample and returns a few bytes, which the ledger stores.
    2. ``resolve(records, folder)`` is called once with the records of all shards, in any order. It
       uses bounded memory and yields the values in the order of (shard, sample), independent of the
       order of the records. The first of several samples is the one of the smallest (shard,
       sample).

    ``among``: the samples that are compared, "all" that can be read, or "kept", those that the rest
    of a predicate keeps. A filter run passes only the records of these. ``compares`` names the
    settings that only ``resolve`` uses: data gathered with other values can be used. ``score``
    raises TypeError.
    """

    compares: ClassVar[frozenset[str]] = frozenset({"among"})

    among: Among = "all"

    def gathers(self) -> dict[str, object]:
        """Return the settings that affect the result of ``gather``."""
        return {name: value for name, value in self.settings().items() if name not in self.compares}

    def score(self, view: "View") -> Value:
        raise TypeError(f"{self.name} compares samples: call gather for each, then resolve")

    @abstractmethod
    def gather(self, view: "View") -> bytes:
        """Return the bytes by which a sample is compared. Raises ScoreError."""

    @abstractmethod
    def resolve(
        self, records: Records, folder: Path, *, memory: int = MEMORY
    ) -> Iterator[tuple[int, int, Value]]:
        """Yield (shard, sample, value) for each record, in order.

        A record is (shard, sample, the result of ``gather``).

        Shards and samples are numbers below 2**32, each pair given once. ``folder`` must exist; it
        holds temporary files if more than ``memory`` bytes are needed: some 50 to 100 bytes for
        each image or caption. They are removed when the iteration ends.
        """


class QueryScore(DatasetScore):
    """A score that compares samples by queries over a table of all of them.

    See ``comparing.compared_table``.
    """

    @abstractmethod
    def column(self, tables: "Tables", *, memory: int = MEMORY) -> Iterator[tuple[int, int, Value]]:
        """Yield (shard, sample, value) for each sample of the table ``compared``, in order.

        Other tables may be created. ``memory``: bytes for what is not in tables.
        """

    def resolve(
        self, records: Records, folder: Path, *, memory: int = MEMORY
    ) -> Iterator[tuple[int, int, Value]]:
        from .comparing.compared_table import compared_records

        with compared_records(records, folder, memory) as tables:
            yield from self.column(tables, memory=memory)


class ModelDatasetScore(DatasetScore):
    """A score that compares samples by the output of a model for each.

    ``record`` replaces ``gather``.
    """

    def gather(self, view: "View") -> bytes:
        raise TypeError(
            f"{self.name} needs the outputs of a model: call requests, run them, then record"
        )

    @abstractmethod
    def record(self, view: "View", outputs: Sequence[Any]) -> bytes:
        """Return the bytes by which a sample is compared.

        ``outputs`` has one output for each request. Raises ScoreError.
        """


def single_or_list(values: list[Scalar]) -> Value:
    """Return a single value itself, several as a list."""
    return values[0] if len(values) == 1 else values


def versions_of(*names: str) -> dict[str, str | None]:
    """Return the versions of distributions, None if not installed.

    "unicode" is the version of Python's tables.
    """
    return {name: unidata_version if name == "unicode" else version_of(name) for name in names}
