"""What a score is: a named number, truth value or text for each sample, with its cost tier.

A score is a frozen dataclass whose fields are its settings. It looks at a sample through a ``View``, which reads and
decodes as little as the scores ask for, and each thing once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, get_origin

from .score_errors import ScoreError
from .selection import parse_captions, parse_images
from .tolerance import Tolerance

if TYPE_CHECKING:
    from wdsflow.images.header import ImageHeader

    from .image.picture import Picture
    from .sample_view import View

__all__ = [
    "TIERS",
    "DatasetScore",
    "HeaderScore",
    "ImageScore",
    "Kind",
    "PixelScore",
    "Scalar",
    "Score",
    "ScoreError",
    "Subject",
    "TextScore",
    "Tier",
    "Value",
    "bare",
    "versions_of",
]

Tier = Literal["header", "text", "pixels", "model"]
Kind = Literal["number", "boolean", "text"]
Subject = Literal["image", "video", "caption", "sample"]
Among = Literal["all", "kept"]
Scalar = float | int | bool | str | None
Value = Scalar | list[Scalar]
TIERS: tuple[Tier, ...] = get_args(Tier)  # cheap first
_PLAIN: dict[Any, tuple[type, ...]] = {bool: (bool,), int: (int,), float: (float, int), str: (str,)}


@dataclass(frozen=True, kw_only=True)
class Score(ABC):
    """Base of all scores.

    ``name`` is what a predicate calls it. ``low`` and ``high`` bound the values of a number, where there are bounds.
    ``needs`` names the extras of this distribution that have to be installed. ``packages`` are the distributions
    whose versions decide a value, ``revision`` counts changes of our own definition: both belong to the identity.
    ``gpus`` is the share of a GPU that a process takes which computes it: 0.25 where four may work on one.
    ``scale_tolerance``: None where nothing is decoded at a reduced scale, or where that does not show.
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
    gpus: ClassVar[float] = 0.0
    scale_tolerance: ClassVar[Tolerance | None] = None
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse settings of another type, and fields that there cannot be. Subclasses call this first."""
        for item in (each for each in fields(self) if each.init):
            value = getattr(self, item.name)
            if get_origin(item.type) is Literal:
                choices = get_args(item.type)
                if value not in choices:
                    raise ValueError(f"{self.name}: {item.name}={value!r} is none of {', '.join(map(repr, choices))}")
            elif item.type in _PLAIN and type(value) not in _PLAIN[item.type]:
                allowed = " or ".join(each.__name__ for each in _PLAIN[item.type])
                raise ValueError(f"{self.name}: {item.name}={value!r} has to be of type {allowed}")
        for names in (getattr(self, "image", ""), getattr(self, "video", "")):
            if names:
                parse_images(names)
        if caption := getattr(self, "caption", ""):
            parse_captions(caption)

    if TYPE_CHECKING:
        score: ClassVar[Any]  # of a score of one's own on batches it takes other arguments
    else:

        @abstractmethod
        def score(self, view: "View") -> Value:
            """Return the value of one sample, a list where it has several images or captions. Raises ScoreError."""

    @classmethod
    def meaning(cls) -> str:
        """Return the first line of the definition."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    def settings(self) -> dict[str, Any]:
        """Return the settings by name."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.init}

    def versions(self) -> dict[str, Any]:
        """Return the versions of the libraries that decide a value."""
        return versions_of(*self.packages)

    def identity(self) -> dict[str, Any]:
        """Return what decides a value beside the sample: name, revision, settings, versions of libraries."""
        return {
            "name": self.name,
            "revision": self.revision,
            "settings": self.settings(),
            "versions": self.versions(),
        }


@dataclass(frozen=True, kw_only=True)
class ImageScore(Score):
    """A score of each image. ``image`` names the field, "" is the view's: see ``parse_images``."""

    subject: ClassVar[Subject] = "image"

    image: str = ""


@dataclass(frozen=True, kw_only=True)
class HeaderScore(ImageScore):
    """A score of what an image's header tells."""

    tier: ClassVar[Tier] = "header"

    @abstractmethod
    def of(self, header: "ImageHeader") -> Scalar:
        """Return the value of one image."""

    def score(self, view: "View") -> Value:
        """Return the value of the sample's images."""
        return bare([self.of(header) for header in view.headers(self.image)])


@dataclass(frozen=True, kw_only=True)
class PixelScore(ImageScore):
    """A score of an image's pixels, on the picture that the view decodes for all of them: see ``Picture``."""

    tier: ClassVar[Tier] = "pixels"
    packages: ClassVar[tuple[str, ...]] = ("pillow", "simplejpeg")

    @abstractmethod
    def of(self, picture: "Picture") -> Scalar:
        """Return the value of one image."""

    def score(self, view: "View") -> Value:
        """Return the value of the sample's images."""
        return bare([self.of(picture) for picture in view.pictures(self.image)])


@dataclass(frozen=True, kw_only=True)
class TextScore(Score):
    """A score of each caption. ``caption`` says where it lies, "" is the view's place: see ``parse_captions``."""

    tier: ClassVar[Tier] = "text"
    subject: ClassVar[Subject] = "caption"

    caption: str = ""

    @abstractmethod
    def of(self, text: str) -> Scalar:
        """Return the value of one caption."""

    def score(self, view: "View") -> Value:
        """Return the value of the sample's captions."""
        of = self.way(view)
        return bare([of(text) for text in view.captions(self.caption)])

    def way(self, view: "View") -> Callable[[str], Scalar]:
        """Return what scores the captions of a sample: ``of``, unless its kind of input has a count of its own."""
        return self.of


@dataclass(frozen=True, kw_only=True)
class DatasetScore(Score):
    """A score that compares each sample with all others. It takes two passes.

    1. ``gather(view)`` looks at one sample and returns a few bytes, which are kept (in the ledger) for
    2. ``resolve(records, folder)``, once over the records of all shards, in any order. It needs bounded memory and
       yields each record's value in the order of (shard, sample); what it yields does not depend on the order in
       which records come. If one of several is the first, it is the one of the smallest (shard, sample).

    ``among`` says which samples are compared: "all" that can be read, or "kept", those that the rest of a predicate
    keeps. Whoever filters gives the records of these, and of no others. ``compares`` names the settings that only
    ``resolve`` looks at: what was gathered with others serves as well. ``score`` is not for these and raises TypeError.
    """

    compares: ClassVar[frozenset[str]] = frozenset({"among"})

    among: Among = "all"

    def gathers(self) -> dict[str, Any]:
        """Return the settings that decide what ``gather`` returns."""
        return {name: value for name, value in self.settings().items() if name not in self.compares}

    def score(self, view: "View") -> Value:
        """Raise TypeError: one sample alone has no such score."""
        raise TypeError(f"{self.name} compares samples: call gather for each, then resolve")

    @abstractmethod
    def gather(self, view: "View") -> bytes:
        """Return what one sample is compared by. Raises ScoreError."""

    @abstractmethod
    def resolve(
        self, records: Iterable[tuple[int, int, bytes]], folder: Path, *, memory: int = 256 << 20
    ) -> Iterator[tuple[int, int, Value]]:
        """Yield (shard, sample, value) for each (shard, sample, what ``gather`` returned), in order.

        Shards and samples are numbers below 2**32, each pair given once. ``folder``, which has to be there, takes
        files for the time being where more than ``memory`` bytes are held: some 50 to 100 bytes for each image or
        caption. They are gone when the iteration ends.
        """


def bare(values: list[Scalar]) -> Value:
    """Return a single value itself, several as they are."""
    return values[0] if len(values) == 1 else values


def versions_of(*names: str) -> dict[str, Any]:
    """Return the versions of distributions, None for those that are not installed."""
    found: dict[str, Any] = dict.fromkeys(names)
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
