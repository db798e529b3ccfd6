"""Options that ``filter``, ``score`` and ``cut`` share, and their conversion to arguments."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .cli_options import EngineChoice
from .terminal import folder_name
from .typed_command import LINES, MACHINES, MAIN, OUTPUT, SAMPLES, free

if TYPE_CHECKING:
    from wdsflow.filtering.recipe.recipe import Recipe

Urls = Annotated[list[str] | None, typer.Argument(metavar="URL...", help="Shards, as for validate.")]
Out = Annotated[
    Path | None,
    typer.Option("--output", "-o", parser=folder_name, metavar="OUT", help="Output folder.", rich_help_panel=MAIN),
]
Where = Annotated[
    str | None,
    typer.Option(
        metavar="PREDICATE",
        help='Predicate: which samples to keep, such as "min_side >= 200 and caption_words >= 3".',
        rich_help_panel=MAIN,
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="SHARE",
        help='Keep this share as well: "clip_similarity top 30%", "blur bottom 10% of kept"; repeatable.',
        rich_help_panel=SAMPLES,
    ),
]
Ledger = Annotated[
    Path | None,
    typer.Option("--ledger", metavar="DIR", help="Folder that score or filter wrote.", rich_help_panel=MAIN),
]
Unknown = Annotated[
    str | None,
    typer.Option(
        "--unknown",
        metavar="WHAT",
        help="What to do with samples whose predicate is unknown: quarantine (default), keep or drop.",
        rich_help_panel=SAMPLES,
    ),
]
Empty = Annotated[
    str | None,
    typer.Option(
        "--empty",
        metavar="WHAT",
        help="What to do with shards of which nothing is kept: leave-out (default) or write.",
        rich_help_panel=OUTPUT,
    ),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option(
        "--recipe",
        metavar="FILE",
        help="Read options from a YAML or TOML file, or from the run.json of an earlier run. Command-line flags take precedence.",
        rich_help_panel=MAIN,
    ),
]
Images = Annotated[
    str | None,
    typer.Option(
        metavar="FIELDS",
        help='Fields that hold the image; the first that exists is used: "jpg;png;jpeg;webp".',
        rich_help_panel=SAMPLES,
    ),
]
Captions = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help='Where captions are: txt, json:caption;alt or "txt|json:caption". auto: find out from some samples.',
        rich_help_panel=MAIN,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        metavar="N",
        help="Number of processes; by default one per core, of this machine or of the cluster.",
        rich_help_panel=MAIN,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="Memory limit for all processes together, such as 4GiB.", rich_help_panel=MACHINES
    ),
]
ImageMemory = Annotated[
    str | None,
    typer.Option(
        "--image-memory",
        metavar="SIZE",
        help="Memory limit for decoding one image; 512MiB by default. Larger images are quarantined.",
        rich_help_panel=MACHINES,
    ),
]
ImageToken = Annotated[
    str | None,
    typer.Option(
        "--image-token",
        metavar="TEXT",
        help="Text that stands for an image; <__dj__image> by default.",
        rich_help_panel=LINES,
    ),
]
VideoToken = Annotated[
    str | None,
    typer.Option(
        "--video-token",
        metavar="TEXT",
        help="Text that stands for a video; <__dj__video> by default.",
        rich_help_panel=LINES,
    ),
]
ChunkEnd = Annotated[
    str | None,
    typer.Option(
        "--chunk-end", metavar="TEXT", help="Text that ends a chunk; <|__dj__eoc|> by default.", rich_help_panel=LINES
    ),
]
MediaRoot = Annotated[
    str | None,
    typer.Option(
        "--media-root",
        metavar="DIR",
        help="Folder of the images; by default the folder of the file.",
        rich_help_panel=LINES,
    ),
]
Export = Annotated[
    list[Path] | None,
    typer.Option(
        "--export",
        metavar="FILE",
        help="Also list the kept samples in this file; repeatable. .txt: keys. .npy: DataComp's uids. .parquet: img2dataset's columns. image_embeddings.npy, caption_embeddings.npy: the stored embeddings.",
        rich_help_panel=MAIN,
    ),
]
Quarantine = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder for quarantined samples; OUT/_wdsflow/quarantine by default.",
        rich_help_panel=OUTPUT,
    ),
]
Restart = Annotated[
    bool,
    typer.Option(
        "--restart/--resume", help="Remove what an earlier run wrote, or resume it (default).", rich_help_panel=MAIN
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Write nothing; print what would be kept.", rich_help_panel=MAIN)
]
ShardIndex = Annotated[
    int,
    typer.Option(
        "--shard-index",
        min=0,
        metavar="I",
        help="Process only slice I of the shards, counted from 0; for job arrays.",
        rich_help_panel=MACHINES,
    ),
]
ShardCount = Annotated[
    int, typer.Option("--shard-count", min=1, metavar="N", help="Number of slices.", rich_help_panel=MACHINES)
]


class Misuse(ValueError):
    """A command that lacks something. ``changed`` completes it, if that is known; ``hint`` says more."""

    def __init__(self, message: str, hint: str = "", **changed: Any) -> None:
        super().__init__(message)
        self.hint, self.changed = hint, {name: value for name, value in changed.items() if value is not None}


class NoLedger(Misuse):
    """A cut without scores. ``changed["ledger"]``: a folder near the output that has some, if there is one."""

    def __init__(self, near: Path | None) -> None:
        super().__init__(
            "no ledger given: name the folder that wdsflow score or filter wrote with --ledger", ledger=near
        )


def given(urls: list[str] | None, out: Path | None, *, needs_out: str = "") -> tuple[list[str], Path]:
    """Return shards and folder; both are required. ``needs_out`` is an example name. Raises Misuse."""
    if not urls:
        raise Misuse('no shards given: name them, such as "shards/{00000..00042}.tar"')
    if out is None and needs_out:
        raise Misuse("no output folder given: name one with -o", out=free(Path(needs_out)))
    return urls, out or Path()


def need_predicate(asked: "Recipe") -> None:
    """Refuse a recipe that would only copy the shards. Raises Misuse."""
    if not (asked.where or asked.keep or asked.stages or asked.lines_to == "tar"):
        raise Misuse(
            'no predicate given: name what to keep with --where, such as "min_side >= 200"; to keep all samples:',
            where="true",
        )


def run_options(
    begin: Callable[[int, str], Callable[[Any], object] | None],
    limits: tuple[int | None, str | None, Path | None],
    slices: tuple[int, int],
    engine: tuple[EngineChoice, str | None],
    models: tuple[str, str | None] = ("auto", None),
    *,
    restart: bool,
    dry_run: bool,
    allow_pipe: bool,
) -> Any:
    """Return the options of a run. Raises ValueError.

    ``limits`` are workers, memory and quarantine; ``engine`` has its address, ``models`` the device and its memory
    limit.
    """
    from wdsflow.filtering.run_options import RunOptions
    from wdsflow.memory.sizes import parse_size

    workers, memory, quarantine = limits
    return RunOptions(
        engine=engine[0].value,
        address=engine[1],
        workers=workers,
        memory=parse_size(memory) if memory else None,
        quarantine=quarantine,
        restart=restart,
        dry_run=dry_run,
        index=slices[0],
        count=slices[1],
        allow_pipe=allow_pipe,
        device=models[0],
        gpu_memory=models[1],
        say=lambda line: print(f"wdsflow: {line}", file=sys.stderr),
        begin=begin,
    )
