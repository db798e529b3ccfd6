"""``wdsflow graft``: fields of samples added or replaced by a join with a table."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from wdsflow.cli.shared.cli_options import Shards
from wdsflow.cli.shared.equal_shards import AllowPipe, Out, writing_shards
from wdsflow.cli.shared.run_arguments import Restart
from wdsflow.cli.shared.terminal import fail, print_lines, progress, warn_of_twice
from wdsflow.cli.shared.typed_command import Typed
from wdsflow.text.shell import escape, quote_path

if TYPE_CHECKING:
    from wdsflow.reshaping.graft.graft_errors import NoColumn, NoMatch
    from wdsflow.reshaping.graft.graft_report import GraftReport


class AmbiguousChoice(str, Enum):
    """What happens to ambiguous samples."""

    refuse = "refuse"
    first = "first"
    each = "each"
    drop = "drop"


Table = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="TABLE",
        help="A .parquet, .csv or .jsonl file, a folder of such files, or a folder that score or filter wrote.",
    ),
]
On = Annotated[
    str,
    typer.Option(
        metavar="WHAT",
        help="key, json:NAME, sha256 or xxh3 of the image; WHAT=COLUMN if the column of the table has another name.",
    ),
]
Set = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="FIELD=COLUMN", help="txt=caption, or json:NAME=COLUMN for a value in the json; repeatable."
    ),
]
Ambiguous = Annotated[
    AmbiguousChoice,
    typer.Option(
        metavar="HOW",
        help="Samples with several rows, or with the row of another sample. refuse; first: the first sample gets the first row; each: each sample gets the first row; drop: none gets any.",
    ),
]
DropUnmatched = Annotated[
    bool,
    typer.Option(
        "--drop-unmatched",
        help="Leave out samples that get nothing: without a row or the field of --on, or ambiguous under --ambiguous drop.",
    ),
]
Jobs = Annotated[int, typer.Option(min=1, metavar="N", help="Shards at once.")]


def graft(
    context: typer.Context,
    urls: Shards,
    table: Table,
    on: On,
    fields: Set,
    out: Out,
    ambiguous: Ambiguous = AmbiguousChoice.refuse,
    drop_unmatched: DropUnmatched = False,
    force: Annotated[bool, typer.Option("--force", help="Write all shards again; replace outputs.")] = False,
    restart: Restart = False,
    jobs: Jobs = 2,
    allow_pipe: AllowPipe = False,
) -> None:
    """Add captions or other fields from a table.

    Images and all other members are copied byte for byte; the inputs never change. Samples without a row stay as they
    are. The table may be larger than memory. The same command resumes an interrupted run.

    Exit status: 0; 1 if something could not be read or set, or no sample has a row; 2 if the command is wrong, the join
    is refused, or nothing could be read or written.
    """
    from wdsflow.reshaping.graft.run_graft import graft_shards

    typed = Typed(context)
    switches = {"drop_unmatched": drop_unmatched, "force": force, "restart": restart, "allow_pipe": allow_pipe}
    what = {"table": table, "on": on, "fields": fields, "ambiguous": ambiguous.value}
    with writing_shards(typed, out), explained_join(typed, urls), progress() as begin:
        report = graft_shards(urls, out, jobs=jobs, begin=begin, **what, **switches)  # type: ignore[arg-type]
    warn_of_twice(urls)
    _show(report, out, urls, typed)


@contextmanager
def explained_join(typed: Typed, urls: list[str]) -> Iterator[None]:
    """Report why a join is refused, and what to do; exit."""
    from wdsflow.reshaping.graft.graft_errors import (
        AmbiguousJoin,
        ContradictedJoin,
        NoColumn,
        NoMatch,
        NoTable,
        TableError,
    )
    from wdsflow.reshaping.graft.join_on import WrongJoin

    try:
        yield
    except NoMatch as error:
        _no_match(error, urls, typed)
    except AmbiguousJoin as error:
        fail(str(error), *(f"{why}: {typed.again(ambiguous=how)}" for how, why in _RESOLUTIONS.items()))
    except ContradictedJoin as error:
        fail(str(error), *error.evidence, f"join on the {error.column}: {typed.again(on=_instead(error.column))}")
    except NoColumn as error:
        fail(str(error), *error.advice, _other_columns(error, typed))
    except NoTable as error:
        fail(str(error), f"such as: {typed.again(table=error.near)}" if error.near else "")
    except TableError as error:
        fail(str(error), *error.advice)
    except WrongJoin as error:
        fail(str(error), f"for a value in the json: {typed.again(on=f'json:{error.text}')}" if error.text else "")


_RESOLUTIONS = {
    "first": "the first sample gets the first row",
    "each": "each of the samples gets the first row",
    "drop": "none of them gets any",
}


def _instead(column: str) -> str:
    return "xxh3" if column == "image_xxh3" else f"json:{column}"


def _no_match(error: "NoMatch", urls: list[str], typed: Typed) -> NoReturn:
    outcome = "nothing is served" if typed.name == "serve" else "nothing was written"
    print(f"wdsflow: {outcome}: {escape(str(error), 500)}", file=sys.stderr)
    for line in error.advice:
        print(f"  {escape(line, 500)}", file=sys.stderr)
    print(f"  see what samples have: {typed.look('inspect', *urls, keys=5)}", file=sys.stderr)
    raise typer.Exit(1) from None


def _other_columns(error: "NoColumn", typed: Typed) -> str:
    """Return the command with columns that there are; "" if it is not known which are meant."""
    from wdsflow.reshaping.graft.join_on import parse_on, parse_set

    wanted = parse_on(typed.given["on"]).column
    near = error.near(wanted) or (next(filter(str.isprintable, error.names), "") if len(error.names) > 1 else "")
    names = {wanted: near}
    names |= {each.column: error.near(each.column) for each in parse_set(typed.given["fields"])}
    names |= {name: name for name in names if name in error.names}
    if error.column in error.names or not all(names.values()) or error.is_parted_otherwise:
        return ""
    on = typed.given["on"] if names[wanted] == wanted else f"{typed.given['on'].partition('=')[0]}={names[wanted]}"
    fields = [f"{text.partition('=')[0]}={names[text.partition('=')[2]]}" for text in typed.given["fields"]]
    return f"such as: {typed.again(on=on, fields=fields)}"


def _show(report: "GraftReport", out: Path, urls: list[str], typed: Typed) -> None:
    unread = [shard for shard in report.shards if shard.lost and not shard.samples]
    if len(unread) == len(report.shards):
        what = f"nothing could be read: {escape(unread[0].url, 300)}: {unread[0].lost[0]}"
        fail(what, f"see what is wrong: {typed.look('validate', *urls)}")
    print_lines(*str(report).splitlines())
    for option in report.idle:
        print(f"wdsflow: --set {escape(option, 200)} changed no sample", file=sys.stderr)
    if report.lost:
        print_lines(f"damage: {Typed.spell('validate', *urls)}")
    if report.total("written"):
        print_lines(f"next: wdsflow validate {quote_path(str(out))}")
    raise typer.Exit(int(report.lost or report.refused or bool(report.idle)))
