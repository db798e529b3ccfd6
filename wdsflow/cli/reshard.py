"""``wdsflow reshard``: shards of equal size, shuffled, split or ordered by key."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wdsflow.cli.shared.equal_shards import DivisibleBy, Samples, Shards, Shuffle, Size, explained_apart, writing_shards
from wdsflow.cli.shared.run_arguments import Restart
from wdsflow.cli.shared.terminal import console, fail, folder_name, progress, warn_of_twice
from wdsflow.cli.shared.typed_command import MACHINES, OTHER, SAMPLES, Typed, free
from wdsflow.text.shell import quote_path

if TYPE_CHECKING:
    from wdsflow.reshaping.reshard.reshard_report import ReshardReport


class OnRepeatedKeys(str, Enum):
    """What becomes of a sample whose key is in its shard already."""

    number = "number"
    refuse = "refuse"


Urls = Annotated[list[str], typer.Argument(metavar="URL...", help="Shards, as for validate.")]
Out = Annotated[
    Path, typer.Option("--output", "-o", parser=folder_name, metavar="OUT", help="Folder for the new shards.")
]
Split = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=SHARE,...",
        help="Parts in folders of their own, by a hash of the key: train=0.9,val=0.1; --shards counts for each.",
    ),
]
Folds = Annotated[int | None, typer.Option(metavar="K", help="K parts of equal share: fold-0 and so on.")]
ByKey = Annotated[bool, typer.Option("--by-key", help="Order samples by key.")]
Repeated = Annotated[
    OnRepeatedKeys,
    typer.Option(
        "--repeated-keys",
        help="A sample whose key is in the shard already becomes KEY-2 (number), or nothing is written (refuse).",
        rich_help_panel=SAMPLES,
    ),
]
EvenFor = Annotated[
    str | None,
    typer.Option(
        metavar="RANKSxWORKERS",
        help="Report how even an epoch is for these; by default those of --divisible-by, otherwise 1x4.",
        rich_help_panel=OTHER,
    ),
]
Jobs = Annotated[
    int, typer.Option(min=1, metavar="N", help="Shards read or written at once.", rich_help_panel=MACHINES)
]
AllowPipe = Annotated[bool, typer.Option("--allow-pipe", help="Run pipe: urls in a shell.", rich_help_panel=OTHER)]


def reshard(
    context: typer.Context,
    urls: Urls,
    out: Out,
    samples: Samples = None,
    size: Size = None,
    shards: Shards = None,
    divisible_by: DivisibleBy = None,
    shuffle: Shuffle = None,
    split: Split = None,
    folds: Folds = None,
    by_key: ByKey = False,
    repeated_keys: Repeated = OnRepeatedKeys.number,
    even_for: EvenFor = None,
    restart: Restart = False,
    jobs: Jobs = 2,
    allow_pipe: AllowPipe = False,
) -> None:
    """Write shards of equal size: shuffled, split or by key.

    Copies samples byte for byte; never changes the inputs. Writes sizes.json and __len__ next to the shards. Reports how even an epoch is before and after. The same
    command resumes an interrupted run.

    Exit status: 0; 1 if something could not be read or no sample was written; 2 if the command is wrong, or nothing
    could be read or written.
    """
    from wdsflow.reshaping.reshard import reshard_shards

    pipe = " --allow-pipe" if allow_pipe else ""
    with _refusals(Typed(context), urls, out, pipe), progress() as begin:
        report = reshard_shards(
            urls,
            out,
            samples=samples,
            size=size,
            shards=shards,
            divisible_by=divisible_by,
            shuffle=shuffle,
            split=split,
            folds=folds,
            by_key=by_key,
            repeated_keys=repeated_keys.value,
            even_for=even_for,
            restart=restart,
            jobs=jobs,
            allow_pipe=allow_pipe,
            begin=begin,
        )
    warn_of_twice(urls)
    _show(
        report, Typed.spell("validate", *urls) + pipe, Typed.spell("repair", *urls, out=free(Path("repaired"))) + pipe
    )
    raise typer.Exit(int(report.lost or not report.samples_written or bool(report.empty)))


@contextmanager
def _refusals(typed: Typed, urls: list[str], out: Path, pipe: str) -> Iterator[None]:
    """Report why a run was refused or ended, and what to do; exit with status 2."""
    from wdsflow.reshaping.reshard.run_reshard import NothingRead
    from wdsflow.reshaping.reshard.write_parts import RepeatedKeys

    with writing_shards(typed, out), explained_apart(typed, urls, pipe):
        try:
            yield
        except RepeatedKeys as error:
            fail(str(error), f"give them other keys: {typed.again(repeated_keys=None)}")
        except NothingRead as error:
            fail(str(error), f"see what is wrong: {Typed.spell('validate', *urls)}{pipe}")


def _show(report: "ReshardReport", look: str, repair: str) -> None:
    shell = console()
    for line in str(report).splitlines():
        shell.print(line, soft_wrap=True)
    if report.lost:
        shell.print(f"to bring back what can be read: {repair}", soft_wrap=True)
    for part in report.parts:
        if part.outputs:
            shell.print(f"next: wdsflow validate {quote_path(str(part.folder))}", soft_wrap=True)
    if not report.samples_written:
        shell.print(f"next: {look}", soft_wrap=True)
