"""Standard output: consoles for tables and colours, and plain lines."""

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

# Characters of a line in a pipe, and at most on a terminal: longer lines are hard to read.
_PIPE_WIDTH = 100
_WIDEST = 120


def console(stream: TextIO | None = None) -> "Console":
    """Return a console that prints text literally and obeys NO_COLOR.

    It does not wrap at 80 columns in a pipe.
    """
    from rich.console import Console

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            # Handled in ending.py.
            raise BrokenPipeError

    stream = stream or sys.stdout
    options: dict[str, Any] = {"width": _width(stream)}
    if os.environ.get("NO_COLOR"):
        options["color_system"] = None
    return PipeConsole(file=stream, markup=False, highlight=False, emoji=False, **options)


def print_lines(*lines: str) -> None:
    """Print lines on standard output; none of them is wrapped."""
    # Not by a console: the import of rich takes as long as some commands.
    for line in lines:
        print(line)


def _width(stream: TextIO) -> int | None:
    """Return the width of a console; None for that of the terminal."""
    if not stream.isatty():
        columns = os.environ.get("COLUMNS", "")
        return int(columns) if columns.isdigit() else _PIPE_WIDTH
    if shutil.get_terminal_size().columns > _WIDEST:
        return _WIDEST
    return None
