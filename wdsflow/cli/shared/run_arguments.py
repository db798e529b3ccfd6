"""Options that several commands share, and checks for ``filter`` and ``measure``."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wdsflow.records.working_folder import working_folder
from wdsflow.text.options import MODELS, argument, option, place, required

from .terminal import shown_as
from .typed import free

if TYPE_CHECKING:
    from wdsflow.filtering.recipe.recipe import Recipe


@dataclass(frozen=True)
class Urls:
    """Shards, which other options may name instead."""

    urls: list[str] | None = argument(
        "URL...", "Shards: paths, braces {000..042}, globs, folders, @list.txt or urls. a::b means both."
    )


@dataclass(frozen=True)
class ShardArguments:
    """Shards."""

    urls: list[str] = argument("URL...", "Shards, as for validate.")


@dataclass(frozen=True)
class NewShards(ShardArguments):
    """Shards, and the folder for the new ones."""

    out: Path | str = required(
        "Folder for the new shards, or its url in an object store.", "--output", "-o", metavar="OUT", parse=place
    )

    @contextmanager
    def folder(self, *, dry_run: bool = False) -> Iterator[Path]:
        """Yield the local folder for the new shards, as ``working_folder``; what is printed shows the url instead."""
        with working_folder(self.out, dry_run=dry_run) as folder, shown_as(folder, self.out):
            yield folder


@dataclass(frozen=True)
class InAndOut:
    """Shards, and the folder of a run."""

    urls: list[str] | None = argument("URL...", "Shards, as for validate.")
    out: Path | str | None = option(
        None, "Output folder, or its url in an object store.", "--output", "-o", metavar="OUT", parse=place
    )

    def named(self, example: str = "") -> tuple[list[str], Path | str]:
        """Return shards and folder; both are required. ``example``: the name of a folder. Raises Misuse."""
        if not self.urls:
            raise Misuse('no shards given: name them, such as "shards/{00000..00042}.tar"')
        if self.out is None and example:
            raise Misuse("no output folder given: name one with -o", out=free(Path(example)))
        return list(self.urls), self.out or Path()


@dataclass(frozen=True)
class RecipeFile:
    """A recipe in a file."""

    recipe: Path | None = option(
        None,
        "Read options from a YAML or TOML file, or from the run.json of an earlier run. Command-line flags take precedence.",
        metavar="FILE",
    )


@dataclass(frozen=True)
class Embeddings:
    """Embeddings of an earlier run."""

    embeddings_from: Path | None = option(
        None,
        "Folder that measure or filter wrote with --embeddings: scores of the same CLIP use its embeddings.",
        metavar="DIR",
        panel=MODELS,
    )


@dataclass(frozen=True)
class Ledger:
    """Scores of an earlier run."""

    ledger: Path | None = option(
        None,
        "Take the scores from this folder, which measure or filter wrote; others are computed for the samples that need them.",
        metavar="DIR",
    )


@dataclass(frozen=True)
class Exports:
    """Lists of the kept samples."""

    export: tuple[Path, ...] = option(
        (),
        "Also list the kept samples in this file; repeatable. .txt: keys. .npy: DataComp's uids. .parquet: img2dataset's columns. image_embeddings.npy, caption_embeddings.npy: the stored embeddings. hashes.npz, embeddings.npz: a list of images for --near.",
        metavar="FILE",
    )


class Misuse(ValueError):
    """A command that lacks something. ``changed`` completes it, if known; ``hint`` explains more."""

    def __init__(self, message: str, hint: str = "", **changed: Any) -> None:
        super().__init__(message)
        self.hint, self.changed = hint, {name: value for name, value in changed.items() if value is not None}


def need_predicate(asked: "Recipe") -> None:
    """Refuse a recipe that would only copy the shards. Raises Misuse."""
    if not (asked.where or asked.keep or asked.near or asked.stages or asked.resize):
        raise Misuse(
            'no predicate given: name what to keep with --where, such as "min_side >= 200"; to keep all samples:',
            where="True",
        )
