"""Options of repair, reshard and graft, and what these report if their run is refused, or ends early."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from wdsflow.cli.shared.terminal import cannot_write, fail, folder_name, is_misplaced, no_shards
from wdsflow.cli.shared.typed_command import Typed, free

Out = Annotated[
    Path, typer.Option("--output", "-o", parser=folder_name, metavar="OUT", help="Folder for the new shards.")
]
AllowPipe = Annotated[bool, typer.Option("--allow-pipe", help="Run pipe: urls in a shell.")]


@contextmanager
def writing_shards(typed: Typed, out: Path) -> Iterator[None]:
    """Report an error of the block with what to do, and exit with status 2; an interrupt passes, with a line about it."""
    from wdsflow.records.folder_lock import Busy
    from wdsflow.records.refusals import OtherOptions
    from wdsflow.records.unfinished import resumed_by
    from wdsflow.shards.source.base import SourceError
    from wdsflow.shards.urls import NoShards

    elsewhere = typed.again(out=free(out), restart=None)
    try:
        with resumed_by(typed.again(restart=None)):
            yield
    except NoShards as error:
        no_shards(error, typed)
    except OtherOptions as error:
        fail(str(error), f"to replace them: {typed.again(restart=True)}", f"to keep them: {elsewhere}")
    except FileExistsError as error:
        fail(str(error), f"elsewhere: {elsewhere}")
    except Busy as error:
        fail(str(error), f"to run at the same time, in another folder: {elsewhere}")
    except ValueError as error:
        fail(str(error), f"to see the options: wdsflow {typed.name} --help")
    except KeyboardInterrupt:
        print("wdsflow: interrupted; the same command resumes this run", file=sys.stderr)
        raise
    except SourceError as error:
        fail(str(error), "finished shards are kept, and the same command writes the others again")
    except OSError as error:
        if is_misplaced(error, out):
            cannot_write(error, f"elsewhere: {elsewhere}")
        cannot_write(error, "free space there: finished shards are kept, and the same command resumes")
