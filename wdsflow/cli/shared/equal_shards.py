"""Options of commands that write shards: sizes, order, what replaces what."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from wdsflow.cli.shared.terminal import cannot_write, folder_name, is_misplaced, no_shards
from wdsflow.shards.urls import compact
from wdsflow.text.shell import quote_path

from .terminal import fail
from .typed_command import Typed, free

_OF_LEDGER = ("ledger", "where", "keep", "unknown")
_OF_GRAFT = ("on", "fields", "ambiguous", "drop_unmatched")

Samples = Annotated[int | None, typer.Option(metavar="N", help="At most N samples in a shard; all shards equal.")]
Size = Annotated[str | None, typer.Option(metavar="SIZE", help="At most so many bytes in a shard, such as 1GB.")]
Shards = Annotated[int | None, typer.Option(metavar="N", help="N shards of equal size.")]
DivisibleBy = Annotated[
    str | None,
    typer.Option(
        metavar="RANKSxWORKERS",
        help="A number of shards that all loader workers can share, such as 8x4: a multiple of 32.",
    ),
]
Shuffle = Annotated[
    int | None, typer.Option(metavar="SEED", help="Shuffle all samples; the same seed gives the same order.")
]


@contextmanager
def explained_apart(typed: Typed, urls: list[str], pipe: str = "") -> Iterator[None]:
    """Report that members of a sample are not next to each other, and what to do; exit with status 2.

    ``pipe``: the flag that lets other commands read the same urls.
    """
    from wdsflow.reshaping.reshard.read_inputs import MembersApart

    try:
        yield
    except MembersApart as error:
        source, steps = " ".join(map(quote_path, compact(urls))), []
        if typed.given.get("ledger"):  # samples may meet only where others are left out
            steps.append(f"wdsflow cut {source} -o {(source := str(free(Path('kept'))))}" + typed.words(*_OF_LEDGER))
        if table := typed.given.get("table"):
            target = str(free(Path("grafted")))
            steps.append(f"wdsflow graft {source} --from {quote_path(str(table))}{typed.words(*_OF_GRAFT)} -o {target}")
            source = target
        repaired = free(Path("repaired"))
        steps.append(f"wdsflow repair {source} -o {repaired}{pipe}")
        gone = dict.fromkeys((*_OF_LEDGER, "table", *_OF_GRAFT, "allow_pipe"))
        steps.append(typed.again(**gone, urls=[str(repaired)]))
        fail(str(error), f"bring them together: {steps[0]}", *(f"then: {step}" for step in steps[1:]))


Out = Annotated[
    Path, typer.Option("--output", "-o", parser=folder_name, metavar="OUT", help="Folder for the new shards.")
]
AllowPipe = Annotated[bool, typer.Option("--allow-pipe", help="Run pipe: urls in a shell.")]


@contextmanager
def writing_shards(typed: Typed, out: Path) -> Iterator[None]:
    """Report an error of the block with what to do, and exit with status 2; an interrupt passes, with a line about it."""
    from wdsflow.records.refusals import Busy, OtherOptions
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
