"""What ``filter``, ``score`` and ``cut`` share: options, progress, errors, and what is shown at the end."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wdsflow.shards.escape import escape

from .options import Engine
from .terminal import WRONG_USE, cannot_write, fail

if TYPE_CHECKING:
    from wdsflow.filtering.report import RunReport

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
Images = Annotated[
    str | None,
    typer.Option(metavar="FIELDS", help='Fields that are images, the first that is there: "jpg;png;jpeg;webp".'),
]
Captions = Annotated[
    str | None, typer.Option(metavar="PLACE", help='Where captions lie: txt, json:caption;alt, "txt|json:caption".')
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


def given(urls: list[str] | None, out: Path | None, *, needs_out: bool = True) -> tuple[list[str], Path]:
    """Return shards and folder, both of which have to be given. Raises ValueError."""
    if not urls:
        raise ValueError('no shards given: name them, such as "shards/{00000..00042}.tar"')
    if out is None and needs_out:
        raise ValueError("where to? give a folder with -o")
    return urls, out or Path()


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn what can go wrong before and in a run into a message and an exit status."""
    from wdsflow.engines.base import EngineError
    from wdsflow.filtering.folder import Differs
    from wdsflow.filtering.lock import Busy
    from wdsflow.shards.urls import NoShards

    try:
        yield
    except NoShards as error:
        fail(str(error), error.hint or "quote the pattern, so that the shell leaves its braces alone; folders work too")
    except Differs as error:
        told = [f"  {escape(each, 600)}" for each in error.differences]
        print("wdsflow: the output folder holds a run that differs from this one:", *told, sep="\n", file=sys.stderr)
        print("  --restart begins anew and removes what that run wrote", file=sys.stderr)
        raise typer.Exit(WRONG_USE) from None
    except Busy as error:
        fail(str(error))
    except EngineError as error:
        fail(str(error), "what is done stays; the same command goes on from there, with any engine")
    except FileExistsError as error:
        fail(str(error))
    except ValueError as error:  # WhereError draws the place on several lines
        print("wdsflow: " + "\n".join(escape(line, 2_000) for line in str(error).split("\n")), file=sys.stderr)
        raise typer.Exit(WRONG_USE) from None
    except KeyboardInterrupt:
        print("wdsflow: interrupted; the same command goes on where this one ended", file=sys.stderr)
        raise
    except BrokenPipeError:  # nobody reads what is printed: no fault of the run's
        raise
    except OSError as error:
        cannot_write(
            error, "make room there or choose another folder; finished shards are kept, and the same command resumes"
        )


def run_options(
    begin: Callable[[int], Callable[[Any], object] | None],
    limits: tuple[int | None, str | None, Path | None],
    slices: tuple[int, int],
    engine: tuple[Engine, str | None],
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
    from wdsflow.filtering.options import RunOptions
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


def exported(report: "RunReport", out: Path, paths: list[Path] | None) -> None:
    """Write the lists that were asked for, of a run that is whole. Raises ValueError, OSError."""
    from wdsflow.filtering.export import export
    from wdsflow.filtering.layout import Layout

    for path in paths or () if report.whole and not report.dry_run else ():
        print(f"{export(Layout(out), report.records, path):,} samples listed in {path}")


def check_exports(paths: list[Path] | None, count: int) -> None:
    """Refuse lists that could not be made, before any work. Raises ValueError."""
    from wdsflow.filtering.export import check_export

    if paths and count > 1:
        raise ValueError(
            "a slice cannot list what all slices keep: run it once more without --shard-count, with --export"
        )
    for path in paths or ():
        check_export(path)


def show(report: "RunReport", out: Path, command: str) -> None:
    """Print the funnel, where everything lies, and what to do next; exit 0, or 1 where anything could not be read."""
    from wdsflow.filtering.jsonl.names import is_lines

    print(report)
    if not report.dry_run:
        if report.quarantine is not None and report.merged("quarantined"):
            print(f"quarantined samples: {report.quarantine}")
        print(f"ledgers: {out / '_wdsflow' / 'ledger'}")
        if report.waits_for:
            print("next: the same command again when they can be read, or without them and with --restart")
        elif report.failures:
            print(f"next: the same command again, it goes on with {len(report.failures):,} of the shards")
        elif not report.whole:
            print("other slices are not done yet")
        elif command == "score":
            print(f'next: wdsflow cut URL... --ledger {out} -o NEW --where "..."')
        elif any(record.parts or (record.output and not is_lines(record.name)) for record in report.records):
            print(f"next: wdsflow validate {out}")
    raise typer.Exit(1 if report.failures or report.lost else 0)
