"""``wdsflow verify``: are these the shards that were certified?"""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from wdsflow.cli.shared.cli_options import Jobs
from wdsflow.cli.shared.help_panels import MAIN
from wdsflow.cli.shared.terminal import console, fail, no_shards, progress
from wdsflow.cli.shared.typed_command import Typed

File = Annotated[Path, typer.Argument(metavar="FILE", help="Certificate that validate --certify wrote.")]
Urls = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[URL...]",
        show_default=False,
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
    from wdsflow.shards.urls import NoShards
    from wdsflow.validate.certificate.certificate import CertificateError, load
    from wdsflow.validate.certificate.compare import compare
    from wdsflow.validate.certificate.comparison_text import comparison_lines

    try:
        certificate = load(file)
        with progress() as begin:
            found = compare(certificate, file, urls or (), full=full, jobs=jobs, begin=begin)
    except CertificateError as error:
        fail(str(error))
    except NoShards as error:
        no_shards(error)
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror or error}")
    if as_json:
        sys.stdout.write(json.dumps(found.to_dict(), indent=2) + "\n")
    else:
        shell = console()
        for line in comparison_lines(found, str(file), Typed(context).again(full=None)):
            shell.print(line, soft_wrap=True)
    raise typer.Exit(0 if found.ok else 1)
