"""What differs between kinds of shards. This is the kind that all readers know: tars."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.where.language.values import Call, Unknown, Value
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.source.base import Source
from wdsflow.stages.scores.sample_view import ViewOptions

from .tar_fields import Views

WrittenTars = dict[str, dict[str, Any]]  # name -> its number of samples, and its identity


class Scored(Protocol):
    """A sample of a shard: its number, key, first byte, the byte after its last, and its scores."""

    number: int
    key: str
    start: int
    end: int
    values: dict[Call, Value | Unknown]

    def quarantine(self, error: str, detail: str = "") -> None:
        """Quarantine the sample."""


class ShardKind:
    """A kind of shards.

    Attributes:
        noun: what a shard is, in messages.
        ending: the end of an output's name.
        reasons: the end of the name of the reasons, next to quarantined samples.
        is_tar: it can be read as a tar, and ends as one.
        by_fields: the names of its fields decide which are images and captions.
    """

    noun: ClassVar[str] = "a tar"
    ending: ClassVar[str] = ".tar"
    reasons: ClassVar[str] = ".jsonl"
    is_tar: ClassVar[bool] = True
    by_fields: ClassVar[bool] = True

    def check(self, urls: Sequence[str], names: Sequence[str], recipe: Recipe) -> None:
        """Refuse requests that are not possible for shards of this kind. ``names``: all outputs. Raises ValueError."""

    def opened(
        self, source: Source, url: str, recipe: Recipe, options: ViewOptions, *, contents: bool
    ) -> tuple[Any, Any]:
        """Return the iterator over the samples of a shard, as ``Samples``, and the factory of their views, as ``Views``.

        ``contents``: read a tar as a whole instead of parts of it, even if members are large. Raises SourceError.
        """
        samples = Samples(source, contents=contents)
        return samples, Views(samples, options, url, recipe.stages)

    def outputs(self, path: Path) -> list[Path]:
        """Return the files that there may be of an output; the first is the output itself, if it is a file."""
        return [path]

    def quarantine_uncopyable(self, source: Source, url: str, recipe: Recipe, kept: Iterable[Scored]) -> None:
        """Quarantine the samples that cannot be copied to the output."""

    def write_beside(self, path: Path, source: Source, url: str, recipe: Recipe, kept: Sequence[Scored]) -> WrittenTars:
        """Write the other files of an output; return the tars among them, which replace it. Raises OSError, SourceError."""
        return {}
