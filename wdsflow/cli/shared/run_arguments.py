"""Options that several commands share, and checks for ``filter`` and ``measure``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wdsflow.records.working_folder import working_folder
from wdsflow.text.options import MODELS, argument, folder_or_url, option, required

from .command_line import But
from .output_url import shown_as
from .typed import unused_path

if TYPE_CHECKING:
    from wdsflow.filtering.recipe.recipe import Recipe

# Help of the options of a join, for commands that write samples or their scores.
OF_JOIN = But(
    join="Table whose values become fields of samples before they are scored, as if wdsflow graft had written them: .parquet, .csv or .jsonl, a folder of such files, or one that measure or filter wrote.",
)


@dataclass(frozen=True)
class Urls:
    """Shards, which other options may name instead."""

    urls: list[str] | None = argument(
        "URL...",
        "Shards: paths, braces {000..042}, globs, folders, @list.txt or urls. a::b means both.",
    )


@dataclass(frozen=True)
class ShardArguments:
    """Shards."""

    urls: list[str] = argument("URL...", "Shards, as for validate.")


@dataclass(frozen=True)
class NewShards(ShardArguments):
    """Shards, and the folder for the new ones."""

    out: Path | str = required(
        "Folder for the new shards, or its url in an object store.",
        "--output",
        "-o",
        metavar="OUT",
        parse=folder_or_url,
    )

    @contextmanager
    def folder(self, *, dry_run: bool = False) -> Iterator[Path]:
        """Yield the local folder for the new shards, as ``working_folder`` does.

        Printed text shows the url instead.
        """
        with working_folder(self.out, dry_run=dry_run) as folder, shown_as(folder, self.out):
            yield folder


@dataclass(frozen=True)
class ShardsAndOutput:
    """Shards, and the folder of a run."""

    urls: list[str] | None = argument("URL...", "Shards, as for validate.")
    out: Path | str | None = option(
        None,
        "Output folder, or its url in an object store.",
        "--output",
        "-o",
        metavar="OUT",
        parse=folder_or_url,
    )

    def require_paths(self, example: str = "", *others: "Misuse") -> tuple[list[str], Path | str]:
        """Return shards and folder; both are required.

        Raises Misuse for all that the command lacks.

        Args:
            example: the name of a folder; "" if none is needed.
            others: what it lacks in addition.
        """
        gaps: list[Misuse] = []
        if not self.urls:
            gaps.append(Misuse('no shards given: name them, such as "shards/{00000..00042}.tar"'))
        if self.out is None and example:
            out = unused_path(Path(example))
            gaps.append(Misuse("no output folder given: name one with -o", out=out))
        gaps += others
        if gaps:
            raise _joined(gaps, complete=bool(self.urls))
        return list(self.urls or ()), self.out or Path()


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
    """A command that lacks something.

    ``changed`` completes it, if known. ``hints`` explain more.
    """

    def __init__(self, message: str, *hints: str, **changed: Any) -> None:
        super().__init__(message)
        self.hints = hints
        self.changed = {name: value for name, value in changed.items() if value is not None}


def _joined(gaps: Sequence[Misuse], *, complete: bool) -> Misuse:
    """Return everything that a command lacks as one error.

    ``complete``: the command has shards, so that a whole command can be shown.
    """
    first, *rest = gaps
    hints = list(first.hints)
    changed = dict(first.changed)
    for gap in rest:
        hints += [str(gap), *gap.hints]
        changed |= gap.changed
    return Misuse(str(first), *hints, **(changed if complete else {}))


def missing_predicate(recipe: "Recipe") -> Iterator[Misuse]:
    """Yield a refusal of a recipe that would only copy the shards."""
    if not (recipe.where or recipe.keep or recipe.near or recipe.stages or recipe.resize):
        yield Misuse(
            'no predicate given: name what to keep with --where, such as "min_side >= 200"; to keep all samples: True',
            where="True",
        )


def missing_scores(recipe: "Recipe") -> Iterator[Misuse]:
    """Yield a refusal of a recipe by which nothing would be measured."""
    if not recipe.scores and not recipe.hash_images:
        yield Misuse(
            "no scores given: name them with --scores",
            "all scores: wdsflow scores",
            scores=["caption_words,min_side"],
        )
