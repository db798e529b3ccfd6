"""What ``filter``, ``score`` and ``cut`` share: their options, and what is made of them."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .cli_options import EngineChoice
from .typed import free

Urls = Annotated[
    list[str] | None, typer.Argument(metavar="URL...", help="Shards, written as for validate.", show_default=False)
]
Out = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="OUT", help="Folder for what is written.", show_default=False)
]
Where = Annotated[
    str | None,
    typer.Option(metavar="PREDICATE", help='Samples to keep, as "min_side >= 200 and caption_words >= 3".'),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option(
        "--recipe",
        metavar="FILE",
        help="Options from a YAML or TOML file, or from the run.json of an earlier run; command-line flags take precedence.",
    ),
]
Images = Annotated[
    str | None,
    typer.Option(metavar="FIELDS", help='Fields that are images, the first that is there: "jpg;png;jpeg;webp".'),
]
Captions = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help='Where captions are: txt, json:caption;alt, "txt|json:caption"; auto: found by a look at some samples.',
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        metavar="N",
        help="Processes; by default one a core, of this machine or of the cluster.",
        show_default=False,
    ),
]
Memory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Memory for all processes together, as 4GiB.", show_default=False)
]
ImageMemory = Annotated[
    str | None,
    typer.Option(
        "--image-memory",
        metavar="SIZE",
        help="What one image may take while it is decoded; by default 512MiB. Larger ones are put aside.",
        show_default=False,
    ),
]
ImageToken = Annotated[
    str | None,
    typer.Option(
        "--image-token",
        metavar="TEXT",
        help="What stands for an image in JSON lines; by default <__dj__image>.",
        show_default=False,
    ),
]
VideoToken = Annotated[
    str | None,
    typer.Option(
        "--video-token",
        metavar="TEXT",
        help="What stands for a video in JSON lines; by default <__dj__video>.",
        show_default=False,
    ),
]
ChunkEnd = Annotated[
    str | None,
    typer.Option(
        "--chunk-end",
        metavar="TEXT",
        help="What ends a chunk in JSON lines; by default <|__dj__eoc|>.",
        show_default=False,
    ),
]
MediaRoot = Annotated[
    str | None,
    typer.Option(
        "--media-root",
        metavar="DIR",
        help="Folder of the images in JSON lines; by default that of the file.",
        show_default=False,
    ),
]
Export = Annotated[
    list[Path] | None,
    typer.Option(
        "--export",
        metavar="FILE",
        help="List kept samples there, too: .txt keys, .npy DataComp's uids, .parquet img2dataset's columns, "
        "image_embeddings.npy or caption_embeddings.npy what --embeddings kept.",
        show_default=False,
    ),
]
Quarantine = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder for samples put aside; by default OUT/_wdsflow/quarantine."),
]
Restart = Annotated[
    bool, typer.Option("--restart/--resume", help="Remove what an earlier run wrote, or go on where it ended.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Write nothing, show what would be kept.")]
ShardIndex = Annotated[int, typer.Option("--shard-index", min=0, metavar="I", help="Do slice I of the shards, from 0.")]
ShardCount = Annotated[int, typer.Option("--shard-count", min=1, metavar="N", help="Slices in all, for job arrays.")]
AllowPipe = Annotated[bool, typer.Option("--allow-pipe", help="Run pipe: urls in a shell.")]


class Misuse(ValueError):
    """A command that lacks something. ``changed``: what makes it whole, if that is known; ``hint`` says more."""

    def __init__(self, message: str, hint: str = "", **changed: Any) -> None:
        super().__init__(message)
        self.hint, self.changed = hint, {name: value for name, value in changed.items() if value is not None}


def given(urls: list[str] | None, out: Path | None, *, needs_out: str = "") -> tuple[list[str], Path]:
    """Return shards and folder, both of which have to be given; ``needs_out`` is a name for one. Raises Misuse."""
    if not urls:
        raise Misuse('no shards given: name them, such as "shards/{00000..00042}.tar"')
    if out is None and needs_out:
        raise Misuse("where to? give a folder with -o", out=free(Path(needs_out)))
    return urls, out or Path()


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

    ``limits`` are workers, memory and quarantine; ``engine`` has its address, ``models`` the device and how much of it
    they may take.
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
