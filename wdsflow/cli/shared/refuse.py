"""The message of a command that cannot run: the problem, and commands that fix it."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from wdsflow.text.shell import escape, quote_path

# Exit status of a wrong command, or if nothing could be read or written.
WRONG_USE = 2
# Characters of a line of a message, and of a hint, whose commands must not be cut.
_LINE = 20_000
_HINT = 100_000


def refuse(message: str, *hints: str) -> NoReturn:
    """Report the problem, then fixes, one line each; exit with status 2. Empty hints are left out.

    A newline in the message, as a path may have one, is spelled out: what follows it would look
    like a line of ours.
    """
    _end([message], hints)


def refuse_in_lines(message: str, *hints: str) -> NoReturn:
    """Report a problem that wdsflow itself has put into several lines, as ``refuse`` does."""
    _end(message.split("\n"), hints)


def _end(lines: Sequence[str], hints: Sequence[str]) -> NoReturn:
    print("wdsflow: " + "\n".join(escape(line, _LINE) for line in lines), file=sys.stderr)
    for hint in hints:
        if hint:
            print(f"  {escape(hint, _HINT)}", file=sys.stderr)
    sys.exit(WRONG_USE)


def refuse_unreadable(error: PermissionError) -> NoReturn:
    """Report a file that this user may not open; exit with status 2."""
    refuse(
        f"cannot open {error.filename}: {error.strerror}",
        f"to see who may: {_permissions_command(str(error.filename))}",
    )


def _permissions_command(path: str) -> str:
    """Return a command that shows the permissions of a path.

    If a folder above it cannot be opened, those of the first such folder.
    """
    visible = path
    while visible and not os.path.lexists(visible):
        visible = os.path.dirname(visible)
    return f"ls -ld {quote_path(visible or '.')}"
