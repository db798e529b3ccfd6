"""``wdsflow verify``: are these the shards that were certified?"""

from pathlib import Path
from typing import Annotated

import typer

from wdsflow.cli.shared.certificates import compare_shards
from wdsflow.cli.shared.cli_options import Jobs
from wdsflow.cli.shared.typed_command import MAIN, Typed

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="Certificate that validate --certify wrote, or checksums.json of index --checksums."
    ),
]
Urls = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[URL...]",
        help="Where the shards are now: their folder, or all of them. By default where the certificate says.",
    ),
]
Full = Annotated[
    bool,
    typer.Option("--full", help="Read and hash all bytes, instead of comparing sizes and ETags or times of change."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, with all shards that differ.", rich_help_panel=MAIN)]


def verify(
    context: typer.Context,
    file: File,
    urls: Urls = None,
    full: Full = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Compare shards with their certificate.

    validate --certify wrote it. Reports shards that changed, are missing or were added:

    wdsflow verify certificate.json

    Exit status: 0 if all shards were compared and are the same; 1 if not; 2 if the command is wrong, or the certificate
    cannot be read or was changed.
    """
    compare_shards(
        file, urls or (), Typed(context).again(full=None), "--full", "--json", full=full, jobs=jobs, as_json=as_json
    )
