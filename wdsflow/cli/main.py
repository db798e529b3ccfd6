"""The command ``wdsflow``: one module per command, imported on first use."""

import functools
import importlib
import io
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from wdsflow.cli.shared.ending import INTERRUPTED, Terminated, ending, raise_on_interrupt
from wdsflow.cli.shared.without_secrets import without_secrets
from wdsflow.version import __version__

if TYPE_CHECKING:
    from wdsflow.cli.shared.typed import Typed

# The first lines of the docstrings, so that ``wdsflow --help`` imports no command. Those that
# people need first come first.
GROUPS = {
    "From shards to training": {
        "validate": "Report whether shards will train, why not, and what to do.",
        "repair": "Write valid shards, with sizes.json and __len__ next to them.",
        "filter": "Keep the samples that match a predicate.",
        "report": "Write a page on a run of filter or measure.",
        "train": "Train with OpenCLIP, with wdsflow as its loader.",
    },
    "Look and explain": {
        "inspect": "Show the contents of shards: fields, captions, image sizes.",
        "explain": "Explain a rule, or list all rules.",
        "scores": "List the scores for predicates, or the values in a ledger.",
        "doctor": "Check this machine, with a fix for each problem.",
    },
    "Scores in a ledger": {
        "measure": "Compute scores of all samples.",
        "status": "Report how far a run is, slice by slice, and what to run again.",
        "merge": "Make one output of all slices of filter or measure.",
    },
    "Make and reshape shards": {
        "pack": "Write shards from a table or a folder of files.",
        "reshard": "Write shards of equal size: shuffled, split or by key.",
        "graft": "Add captions or other fields from a table.",
        "index": "Write sizes.json and the index files of other readers.",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
# Pass the arguments after -- to another program.
AFTER_DASHES = frozenset({"validate", "train"})
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line, and exit with a status.

    0: success; 1: errors found; 2: wrong use, or nothing could be read.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        # An unprintable character must not end the run.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    arguments, after_dashes = _split_at_dashes(words)
    with ending(), without_secrets(words):
        wdsflow()(arguments, prog_name="wdsflow", obj=after_dashes)


def _split_at_dashes(words: list[str]) -> tuple[list[str], list[str] | None]:
    """Separate wdsflow's arguments from those of another program, which follow ``--``."""
    if words and words[0] in AFTER_DASHES and "--" in words:
        dashes = words.index("--")
        return words[:dashes], words[dashes + 1 :]
    return words, None


def wdsflow() -> click.Group:
    """Return the command line."""
    group = _Commands(
        "wdsflow",
        {name: click.Command(name) for name in COMMANDS},
        no_args_is_help=True,
        context_settings=_SETTINGS,
        help="""Prove that WebDataset shards will train, before you book a GPU, and train OpenCLIP on them.

        Start with: wdsflow validate "shards/{00000..00042}.tar"
        """,
    )
    return click.version_option(__version__, message="wdsflow %(version)s")(group)


class _Commands(click.Group):
    """A group that imports a command on first use."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from wdsflow.cli.shared.command_line import command_of

        function = getattr(importlib.import_module(f"wdsflow.cli.{cmd_name}"), cmd_name)
        return command_of(cmd_name, function, functools.partial(_run, function))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                # Padded, so that the summaries of all groups begin in one column.
                formatter.write_dl(
                    [(name.ljust(width), summary) for name, summary in commands.items()]
                )


def _run(command: Callable[..., None], typed: "Typed", options: Callable[[], list[object]]) -> None:
    from wdsflow.cli.shared.refusals import EXPLAIN_THEMSELVES, errors_explained
    from wdsflow.cli.shared.refuse import refuse_unreadable

    try:
        raise_on_interrupt()
        with errors_explained(typed):
            arguments = options()
        with nullcontext() if typed.name in EXPLAIN_THEMSELVES else errors_explained(typed):
            command(typed, *arguments)
    except PermissionError as error:
        # In train, it may be of the user's code.
        if typed.name == "train" or not error.filename:
            raise
        refuse_unreadable(error)
    except KeyboardInterrupt as error:
        # Resumable commands have printed a message.
        if not typed.is_resumable:
            print("wdsflow: interrupted", file=sys.stderr)
        sys.exit(error.status if isinstance(error, Terminated) else INTERRUPTED)
