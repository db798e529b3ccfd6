"""What every command shares: consoles, one-line errors, a progress bar, atomic output."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import typer

from wdsflow.shards.escape import escape

if TYPE_CHECKING:
    from rich.console import Console

    from wdsflow.shards.urls import NoShards

WRONG_USE = 2
_LONG = 20_000  # characters of a message: commands in it have to stay whole
_PIPE_WIDTH = 100


def fail(message: str, hint: str = "") -> NoReturn:
    """Say in one line what is wrong, and in a second one what to do; exit with status 2."""
    print(f"wdsflow: {escape(message, _LONG)}", file=sys.stderr)
    if hint:
        print(f"  {escape(hint, _LONG)}", file=sys.stderr)
    raise typer.Exit(WRONG_USE)


def no_shards(error: "NoShards") -> NoReturn:
    """Say that a pattern matches no shards, and what may have been meant; exit with status 2."""
    fail(str(error), error.hint or "quote the pattern, so that the shell leaves its braces alone; folders work too")


def console(stream: TextIO | None = None) -> "Console":
    """Return a console that never interprets data, has no colour where NO_COLOR is set, and does not wrap at 80 in a pipe."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # how a command ends is decided in one place: ending.py

    stream = stream or sys.stdout
    options: dict[str, Any] = {"color_system": None} if os.environ.get("NO_COLOR") else {}
    if not stream.isatty():
        options["width"] = int(os.environ["COLUMNS"]) if os.environ.get("COLUMNS", "").isdigit() else _PIPE_WIDTH
    elif shutil.get_terminal_size().columns > 120:
        options["width"] = 120  # longer lines are hard to read
    return Quiet(file=stream, markup=False, highlight=False, emoji=False, **options)


def check_output(path: Path | None) -> None:
    """Fail before any work is done if a file could not be written there."""
    if path is None:
        return
    if path.is_dir():
        fail(f"--output {path} is a folder")
    if not path.parent.is_dir():
        fail(f"the folder {path.parent} does not exist")


def write_output(path: Path, text: str) -> None:
    """Write a file in one step: a run that dies leaves the old one as it was."""
    if path.exists() and not path.is_file():  # a pipe or device, such as /dev/stdout
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def progress(noun: str = "shards") -> Iterator[Callable[..., Callable[[object], None] | None]]:
    """Give a function that begins a bar: of how many steps, and of what, where there are several; it draws on a terminal only.

    It returns what to call after each step. Standard error is used, so that standard output can be piped.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda total, what="": None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    reading = TextColumn("reading {task.description}")
    columns = (reading, BarColumn(), MofNCompleteColumn(), TextColumn(noun), TimeRemainingColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as bar:

        def begin(total: int, what: str = "") -> Callable[[object], None]:
            task = bar.add_task(what, total=total)
            return lambda _: bar.advance(task)

        yield begin


def several(values: Sequence[str] | None) -> list[str]:
    """Split values that may come one by one or joined by commas.

    >>> several(["W001,W002", "F1"]), several(None)
    (['W001', 'W002', 'F1'], [])
    """
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]
