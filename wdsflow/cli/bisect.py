"""``wdsflow bisect``: find the smallest shards with which a command still fails."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.cli.shared.terminal import fail
from wdsflow.cli.shared.typed import Typed, free
from wdsflow.text.options import argument, folder, option
from wdsflow.text.shell import command as command_line
from wdsflow.text.shell import escape, quote_path
from wdsflow.text.words import how_many

if TYPE_CHECKING:
    from wdsflow.bisection.bisect_shards import Bisection, Kept


@dataclass(frozen=True)
class BisectOptions:
    """The shards to search, and the output."""

    urls: list[str] = argument("URL...", "Shards with which COMMAND fails, as for validate.")
    out: Path = option(
        Path("smallest"), "New folder for the smallest shards.", "--output", "-o", metavar="OUT", parse=folder
    )
    hang_after: float | None = option(
        None, "Look for a hang: a run that takes longer is killed.", metavar="SECONDS", least=0.1
    )
    match: str | None = option(
        None, "Only a run that prints this text fails, whatever its exit status.", metavar="TEXT"
    )


def bisect(typed: Typed, options: BisectOptions) -> None:
    """Find the smallest shards with which a command fails.

    The command follows --. In it, {shards} stands for the shards (a path, or a range in braces), {folder} for a folder
    that holds them, {samples} for their number of samples, and {run} for an empty folder, a new one for each run:

    wdsflow bisect "shards/*.tar" -- python train.py {shards}

    It is run again and again with fewer shards, then with fewer samples. A run counts if it fails as the first did:
    with the same exit status and the same exception. Exit status: 0 if the smallest shards were written; 1 if the
    command does not fail; 2 for wrong use.
    """
    from wdsflow.bisection.bisect_shards import WORK, DoesNotFail, Passes, bisect_shards
    from wdsflow.bisection.tried_command import FOLDER, SHARDS, TriedCommand
    from wdsflow.shards.urls import expand_existing

    command, out = typed.after_dashes or [], options.out
    if not any(SHARDS in word or FOLDER in word for word in command):
        such = f"{typed.again()} {'' if command else '-- python train.py '}{SHARDS!r}"
        fail(f"name a command after --, with {SHARDS} where it takes the shards", f"such as: {such}")
    if options.match == "":
        fail("--match needs a text: every run prints an empty one")
    if not set("{}[]*?").isdisjoint(str(out)):
        fail(f"{out} would be a pattern in the command: name a folder without braces, brackets, * and ?")
    if out.exists() and (not out.is_dir() or any(each.name != WORK for each in out.iterdir())):
        fail(f"{out} exists already", f"elsewhere: {typed.again(out=free(out))}")

    def say(line: str) -> None:
        print(escape(line, 500), file=sys.stderr, flush=True)

    try:
        tried = TriedCommand(command, options.hang_after, options.match)
        found = bisect_shards(expand_existing(options.urls), out, tried, say)
    except DoesNotFail as error:
        print(f"wdsflow: {error}", file=sys.stderr)
        if isinstance(error, Passes) and options.hang_after is None:
            print(f"  if it hangs: {typed.again(hang_after=60)}", file=sys.stderr)
        sys.exit(1)
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
    """Describe the remaining samples of a shard."""
    if shard.keys is None:
        return f"all {how_many(shard.samples, 'sample')}, byte for byte as"
    first = ", ".join(escape(key, 100) for key in shard.keys[:5])
    return f"{how_many(len(shard.keys), 'sample')} of {shard.samples} ({first}{', ...' if len(shard.keys) > 5 else ''})"
