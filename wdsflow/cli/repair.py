"""``wdsflow repair``: write valid shards from damaged ones."""

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wdsflow.cli.shared.cli_options import Shards
from wdsflow.cli.shared.equal_shards import AllowPipe, Out, writing_shards
from wdsflow.cli.shared.run_arguments import Restart
from wdsflow.cli.shared.terminal import fail, print_lines, progress, several
from wdsflow.cli.shared.typed_command import Typed
from wdsflow.shards.source.base import local_file
from wdsflow.text.shell import escape, quote_path

if TYPE_CHECKING:
    from wdsflow.repair.repair_report import RepairReport

Caption = Annotated[
    str | None,
    typer.Option(
        metavar="json:FIELD[;OTHER]",
        help="Write KEY.txt from this field of KEY.json if a sample has no caption in UTF-8; auto: find the field that holds captions.",
    ),
]
Rename = Annotated[
    list[str] | None, typer.Option(metavar="OLD=NEW", help="Rename a field; repeatable. txt.gz=txt also unpacks it.")
]
DropField = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Leave a field out; repeatable.")]
DropBad = Annotated[
    bool, typer.Option("--drop-bad", help="Leave out samples without a caption, or without an image that decodes.")
]
Jobs = Annotated[int, typer.Option(min=1, metavar="N", help="Shards repaired at once.")]


def repair(
    context: typer.Context,
    urls: Shards,
    out: Out,
    caption: Caption = None,
    rename: Rename = None,
    drop_field: DropField = None,
    drop_bad: DropBad = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; print what would be done.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Repair all shards again; replace outputs.")] = False,
    restart: Restart = False,
    jobs: Jobs = 2,
    allow_pipe: AllowPipe = False,
) -> None:
    """Write valid shards, with sizes.json and __len__ next to them.

    Regroups the members of a sample, drops junk, makes names safe, and recovers the samples after damage. Copies
    contents byte for byte; never changes the inputs. The same command resumes an interrupted run.

    Exit status: 0; 1 if something could not be read, no sample was written, or an option changed nothing; 2 if the
    command is wrong, or nothing could be read or written.
    """
    from wdsflow.repair.run_repair import repair_shards as run

    warnings.filterwarnings("ignore", message=".*decompression bomb")  # Pillow's; wdsflow judges such images
    options = {"caption": caption, "rename": _pairs(several(rename)), "drop_fields": several(drop_field)}
    switches = {"drop_bad": drop_bad, "dry_run": dry_run, "force": force, "restart": restart, "allow_pipe": allow_pipe}
    again = Typed(context)
    with writing_shards(again, out):
        if caption is not None:
            options["caption"] = _caption(urls, caption, again, allow_pipe=allow_pipe)
        with progress() as begin:
            report = run(urls, out, begin=begin, jobs=jobs, **options, **switches)  # type: ignore[arg-type]
    if all(shard.unread for shard in report.shards):
        fail(_nothing(report), f"see what is wrong: {again.look('validate', *urls)}")
    for option in report.idle:
        print(f"wdsflow: {escape(option, 200)} changed nothing: {_why_idle(option, report)}", file=sys.stderr)
    _show(report, out, again.look("validate", *urls))
    raise typer.Exit(int(report.lost or bool(report.idle or report.warning)))


def _why_idle(option: str, report: "RepairReport") -> str:
    name = option.partition(" ")[2].partition("=")[0]
    blocked = [reason for reason in report.merged("missed") if reason.startswith(f"{name} not renamed: ")]
    if blocked:
        return escape(blocked[0].partition(": ")[2], 200)
    return f"no sample has a field {escape(name, 100)}; to see what they have: wdsflow inspect {quote_path(report.shards[0].url)}"


def _nothing(report: "RepairReport") -> str:
    first, more = report.shards[0], len(report.shards) - 1
    path = local_file(first.url)
    others = f" and {more:,} more shard{'s' if more > 1 else ''}" if more else ""
    where = first.url if path is None else os.path.abspath(path)
    return f"nothing could be read: {where}{others}: {first.lost[0]}"


def _caption(urls: list[str], caption: str, typed: Typed, *, allow_pipe: bool) -> str:
    """Return the place of captions in json. Exits if no sample has one there; raises ValueError, NoShards."""
    from wdsflow.filtering.json_place import AUTO, NoCaptions, check_captions, find_captions
    from wdsflow.filtering.recipe.recipe import Recipe
    from wdsflow.shards.caption_field import parse_caption_field
    from wdsflow.shards.urls import expand

    shards = expand(urls).urls
    if caption == AUTO:
        found = find_captions(shards, Recipe(), like="json:caption", allow_pipe=allow_pipe)
        if found is None or ":" not in found.place:
            fail("--caption auto: no json member holds captions", "" if found is None else str(found))
        print(f"wdsflow: --caption auto: {escape(str(found), 500)}", file=sys.stderr)
        return found.place.partition("|")[0]
    parse_caption_field(caption)
    try:
        check_captions(shards, Recipe(captions=caption), allow_pipe=allow_pipe)
    except NoCaptions as error:
        place = error.found.place.partition("|")[0] if error.found else ""
        fail(str(error), f"{error.found}: {typed.again(caption=place if ':' in place else None)}" if place else "")
    return caption


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        old, _, new = text.partition("=")
        if not (old and new):
            fail(f"--rename {text} is not of the form OLD=NEW")
        pairs[old] = new
    return pairs


def _show(report: "RepairReport", out: Path, look: str) -> None:
    print_lines(*str(report).splitlines())
    if not report.dry_run and report.total("samples_written"):
        print_lines(f"next: wdsflow validate {quote_path(str(out))}")
    elif report.warning and report.total("samples"):
        print_lines(f"next: {look}")
