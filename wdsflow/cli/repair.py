"""``wdsflow repair``: write sound shards from unsound ones."""

from pathlib import Path
from typing import Annotated

import typer

from wdsflow.shards.escape import escape

from .terminal import WRONG_USE, console, fail, progress, several


def repair(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Shards, written as for validate.")],
    out: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Folder for the new shards.")],
    caption: Annotated[
        str | None,
        typer.Option(
            metavar="json:FIELD[;OTHER]",
            help="Write KEY.txt from that field of KEY.json where a sample has no caption.",
            show_default=False,
        ),
    ] = None,
    rename: Annotated[
        list[str] | None, typer.Option(metavar="OLD=NEW", help="Rename a field; repeatable.", show_default=False)
    ] = None,
    drop_field: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Leave a field out; repeatable.", show_default=False)
    ] = None,
    drop_bad: Annotated[
        bool, typer.Option("--drop-bad", help="Leave out samples without an image or a caption.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing, show what would be done.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace outputs that exist.")] = False,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Shards at a time.")] = 2,
    allow_pipe: Annotated[bool, typer.Option("--allow-pipe", help="Run pipe: urls in a shell.")] = False,
) -> None:
    """Write sound shards, with sizes.json and __len__ beside them.

    Brings the members of a sample together, drops junk, makes names safe, keeps what lies behind damage.
    Contents are copied byte for byte; the inputs are never changed.

    Exit status: 0, 1 if something could not be read, 2 for wrong use or where nothing could be written.
    """
    from wdsflow.shards.repair import repair as run
    from wdsflow.shards.urls import NoShards

    pairs = [text.partition("=") for text in several(rename)]
    if wrong := next((f"{old}{sign}{new}" for old, sign, new in pairs if not (old and new)), None):
        fail(f"--rename {wrong} is not of the form OLD=NEW")
    try:
        with progress() as begin:
            report = run(
                urls,
                out,
                caption=caption,
                rename={old: new for old, _, new in pairs},
                drop_fields=several(drop_field),
                drop_bad=drop_bad,
                dry_run=dry_run,
                force=force,
                jobs=jobs,
                allow_pipe=allow_pipe,
                begin=begin,
            )
    except NoShards as error:
        fail(str(error), "quote the pattern, so that the shell leaves its braces alone; folders work too")
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot write: {error}", "whole outputs stay, half ones were removed")
    shell = console()
    for line in str(report).splitlines():
        shell.print(line, soft_wrap=True)
    if not dry_run and report.total("samples_written"):
        shell.print(f"next: wdsflow validate {escape(str(out), 500)}", soft_wrap=True)
    if not any(shard.members for shard in report.shards):
        raise typer.Exit(WRONG_USE)
    raise typer.Exit(int(report.lost))
