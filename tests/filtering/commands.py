"""Commands as a user types them, and those that are printed: pasted as they are."""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from wdsflow.cli.main import main

_PRINTED = re.compile(r"(?:^ *|: |\? )(wdsflow [a-z]+(?: .*)?|chmod .*)$", re.MULTILINE)


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str

    @property
    def commands(self) -> list[str]:
        """The commands that were printed, in their order."""
        return [found[1] for found in _PRINTED.finditer(f"{self.err}\n{self.out}")]


def run(*words: object) -> Done:
    """Run ``wdsflow`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as ended:
            status = int(ended.code or 0)
    return Done(status, out.getvalue(), err.getvalue())


def pasted(command: str) -> Done:
    """Run a command that was printed, with ``> FILE`` at its end if it has that.

    The redirection works as in a shell.
    """
    line, file = re.fullmatch(r"(.*?)(?: > ([\w.]+))?", command).groups()
    words = shlex.split(line)
    assert words[0] == "wdsflow", command
    done = run(*words[1:])
    if file:
        Path(file).write_text(done.out)
    return done
