"""``wdsflow diff``: what differs between two sets of shards."""

import json
import sys
import tempfile
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from wdsflow.cli.shared.cli_options import AllowPipe
from wdsflow.cli.shared.terminal import cannot_write, fail, no_shards, print_lines, progress
from wdsflow.cli.shared.typed_command import CHECKS, MACHINES, Typed
from wdsflow.text.shell import quote_path


class DiffFormat(str, Enum):
    """Formats of the report."""

    text = "text"
    json = "json"
    markdown = "markdown"


Before = Annotated[str, typer.Argument(metavar="A", help="Shards, as for validate; several patterns joined by ::")]
After = Annotated[str, typer.Argument(metavar="B", help="Shards to compare them with.")]
Format = Annotated[
    DiffFormat,
    typer.Option(
        "--format", metavar="FORMAT", help="Format of the report: text, json, or markdown for a pull request."
    ),
]
Show = Annotated[int, typer.Option(min=0, metavar="N", help="Samples shown of each kind of difference.")]
LedgerA = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Output folder of score or filter with the scores of A. By default that of the shards, if both sets have one.",
        rich_help_panel=CHECKS,
    ),
]
LedgerB = Annotated[Path | None, typer.Option(metavar="FOLDER", help="The same for B.", rich_help_panel=CHECKS)]
Jobs = Annotated[int, typer.Option(min=1, metavar="N", help="Shards read at once.", rich_help_panel=MACHINES)]


def diff(
    context: typer.Context,
    before: Before,
    after: After,
    form: Format = DiffFormat.text,
    show: Show = 20,
    ledger_a: LedgerA = None,
    ledger_b: LedgerB = None,
    jobs: Jobs = 2,
    allow_pipe: AllowPipe = False,
) -> None:
    """Compare two sets of shards, sample by sample.

    Samples of the same key are compared field by field, by their bytes; it does not matter which shards they are in.
    Reports samples that only one set has, fields and captions that changed, and scores, if both sets have ledgers.

    Exit status, as of diff(1): 0 if the sets are the same, 1 if they differ, 2 if something could not be read.
    """
    from wdsflow.filtering.ledger.ledger_row import LedgerError
    from wdsflow.reshaping.diff.run_diff import diff_shards
    from wdsflow.reshaping.diff.set_diff import markdown_lines, text_lines
    from wdsflow.shards.urls import NoShards

    typed = Typed(context)
    ledgers = (ledger_a, ledger_b) if ledger_a is not None or ledger_b is not None else None
    try:
        with progress() as begin:
            found = diff_shards(
                before, after, ledgers=ledgers, shown=show, jobs=jobs, allow_pipe=allow_pipe, begin=begin
            )
    except NoShards as error:
        no_shards(error, typed)
    except (LedgerError, ValueError) as error:
        fail(str(error), "to see the options: wdsflow diff --help")
    except OSError as error:
        folder = quote_path(tempfile.gettempdir())
        cannot_write(error, f"free space in {folder}, or name another folder with the environment variable TMPDIR")
    for name, facts, urls in zip("AB", found.sides, (before, after), strict=True):
        if facts.shards and len(facts.trouble) >= len(facts.shards) and not facts.fields:
            look = f"see what is wrong: {typed.look('validate', *urls.split('::'))}"
            fail(f"nothing of {name} could be read: {facts.trouble[0]}", look)
    if form is DiffFormat.json:
        sys.stdout.write(json.dumps(found.to_dict(), indent=2) + "\n")
    elif form is DiffFormat.markdown:
        sys.stdout.writelines(f"{line}\n" for line in markdown_lines(found))
    else:
        print_lines(*text_lines(found))
    raise typer.Exit(found.exit_status)
