"""``wdsflow bisect``: the smallest shards with which a command still fails."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wdsflow.cli.shared.terminal import cannot_write, fail, folder_name, is_misplaced, no_shards
from wdsflow.cli.shared.typed_command import Typed, free
from wdsflow.text.shell import command as command_line
from wdsflow.text.shell import escape, quote_path
from wdsflow.text.words import how_many

if TYPE_CHECKING:
    from wdsflow.bisection.bisect_shards import Bisection, Kept

Urls = Annotated[list[str], typer.Argument(metavar="URL...", help="Shards with which COMMAND fails, as for validate.")]
Out = Annotated[
    Path, typer.Option("--output", "-o", parser=folder_name, metavar="OUT", help="New folder for the smallest shards.")
]
HangAfter = Annotated[
    float | None, typer.Option(metavar="SECONDS", min=0.1, help="Look for a hang: a run that takes longer is killed.")
]
Match = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only a run that prints this text fails, whatever its exit status.")
]


def bisect(
    context: typer.Context, urls: Urls, out: Out = Path("smallest"), hang_after: HangAfter = None, match: Match = None
) -> None:
    """Find the smallest shards with which a command fails.

    The command follows --. In it, {shards} stands for the shards (a path, or a range in braces), {folder} for a folder
    that holds them, {samples} for their number of samples, and {run} for an empty folder, a new one for each run:

    wdsflow bisect "shards/*.tar" -- python train.py {shards}

    It is run again and again with fewer shards, then with fewer samples. A run counts if it fails as the first did:
    with the same exit status and the same exception. Exit status: 0 if the smallest shards were written; 1 if the
    command does not fail; 2 for wrong use.
    """
    from wdsflow.bisection.bisect_shards import WORK, DoesNotFail, Passes, bisect_shards
    from wdsflow.bisection.tried_command import FOLDER, SHARDS, CannotStart, TriedCommand
    from wdsflow.shards.source.base import SourceError
    from wdsflow.shards.urls import NoShards, expand_existing

    command: list[str] = context.obj or []
    typed = Typed(context)
    if not any(SHARDS in word or FOLDER in word for word in command):
        fail(
            f"name a command after --, with {SHARDS} where it takes the shards",
            f"such as: {typed.again()} {SHARDS!r}"
            if command
            else f"such as: {typed.again()} -- python train.py {SHARDS!r}",
        )
    if match == "":
        fail("--match needs a text: every run prints an empty one")
    if not set("{}[]*?").isdisjoint(str(out)):
        fail(f"{out} would be a pattern in the command: name a folder without braces, brackets, * and ?")
    if out.exists() and (not out.is_dir() or any(each.name != WORK for each in out.iterdir())):
        fail(f"{out} exists already", f"elsewhere: {typed.again(out=free(out))}")

    def say(line: str) -> None:
        print(escape(line, 500), file=sys.stderr, flush=True)

    try:
        found = bisect_shards(expand_existing(urls), out, TriedCommand(command, hang_after, match), say)
    except NoShards as error:
        no_shards(error, typed)
    except SourceError as error:
        fail(str(error), f"see what is wrong: {typed.spell('validate', *urls)}")
    except CannotStart as error:
        fail(str(error), f"its full path works from everywhere; as you typed it: {typed.again()}")
    except OSError as error:
        if is_misplaced(error, out):
            cannot_write(error, f"elsewhere: {typed.again(out=free(out))}")
        raise
    except DoesNotFail as error:
        print(f"wdsflow: {error}", file=sys.stderr)
        if isinstance(error, Passes) and hang_after is None:
            print(f"  if it hangs: {typed.again(hang_after=60)}", file=sys.stderr)
        raise typer.Exit(1) from None
    _show(found, command, out)


def _show(found: "Bisection", command: list[str], out: Path) -> None:
    from wdsflow.bisection.bisect_shards import NEW_FOLDER

    for shard in found.shards:
        print(f"{quote_path(str(shard.path))}: {_contents(shard)} of {escape(shard.url, 500)}")
    print(
        f"with {how_many(len(found.shards), 'shard')} of {found.given} the command {found.outcome}; {how_many(found.runs, 'run')}"
    )
    print(f"\nWhat to do\n  1. see the samples\n       wdsflow inspect {quote_path(str(out))} --keys 20")
    again = command_line(found.words(command)).replace(NEW_FOLDER, '"$(mktemp -d)"')
    print(f"  2. run the command with them\n       {again}")


def _contents(shard: "Kept") -> str:
    """Return in words what is left of a shard."""
    if shard.keys is None:
        return f"all {how_many(shard.samples, 'sample')}, byte for byte as"
    first = ", ".join(escape(key, 100) for key in shard.keys[:5])
    return f"{how_many(len(shard.keys), 'sample')} of {shard.samples} ({first}{', ...' if len(shard.keys) > 5 else ''})"
