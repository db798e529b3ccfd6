"""The command ``wdsflow``: one module per command, imported on first use."""

import functools
import importlib
import io
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from wdsflow.cli.shared.ending import INTERRUPTED, Terminated, ending, interrupts_raise
from wdsflow.cli.shared.typed_command import AFTER_DASHES, PanelHelp
from wdsflow.version import __version__

COMMANDS = (
    "validate",
    "verify",
    "inspect",
    "explain",
    "repair",
    "filter",
    "score",
    "cut",
    "scores",
    "report",
    "reshard",
    "graft",
    "index",
    "diff",
    "serve",
    "bisect",
    "doctor",
    "train",
)
_HELP = frozenset({"-h", "--help"})
_REPORT_THEMSELVES = frozenset(
    {"filter", "score", "cut", "repair", "reshard", "graft"}
)  # report that they were interrupted, and what remains to do
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 success, 1 errors found, 2 wrong use or nothing could be read."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a character that the terminal cannot show must not end the run
            stream.reconfigure(errors="backslashreplace")
    own, training = _split(words)
    with ending():
        app = _app(own)
        if own[:1] and own[0] in COMMANDS and not _HELP.isdisjoint(own):
            print(_help(app, own[0]))
            sys.exit(0)
        app(own, prog_name="wdsflow", obj=training)


def _help(app: typer.Typer, name: str) -> str:
    """Return a command's help. Typer would load pydantic to parse ``--help``, which takes most of the time."""
    group: Any = typer.main.get_command(app)
    parent = typer.Context(group, info_name="wdsflow", **_SETTINGS)
    command = group.get_command(parent, name)
    text = command.get_help(typer.Context(command, info_name=name, parent=parent))
    return str(text)


def _split(words: list[str]) -> tuple[list[str], list[str] | None]:
    """Separate wdsflow's arguments from those of another program, which follow ``--``."""
    if words and words[0] in AFTER_DASHES and "--" in words:
        border = words.index("--")
        return words[:border], words[border + 1 :]
    return words, None


def _app(words: Sequence[str]) -> typer.Typer:
    # Plain help: importing rich takes 0.2 s, and rich would interpret markup.
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=_SETTINGS,
    )
    asked = words[0] if words and words[0] in COMMANDS else None
    app.callback()(_wdsflow)
    for name in [asked] if asked else COMMANDS:
        module = importlib.import_module(f"wdsflow.cli.{name}")
        app.command(name, cls=PanelHelp)(_guarded(name, getattr(module, name)))
    return app


def _guarded(name: str, command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            interrupts_raise()
            command(*args, **options)
        except KeyboardInterrupt as error:
            if name not in _REPORT_THEMSELVES:
                print("wdsflow: interrupted", file=sys.stderr)
            raise typer.Exit(error.status if isinstance(error, Terminated) else INTERRUPTED) from None

    return run


def _version(asked: bool) -> None:
    if asked:
        print(f"wdsflow {__version__}")
        raise typer.Exit


def _wdsflow(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Prove that WebDataset shards will train, before you book a GPU, and train OpenCLIP on them.

    Start with: wdsflow validate "shards/{00000..00042}.tar"
    """
