"""Programs next to tests, which answer lines with lines."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, cast

from tests.fork_server import forked_python


class Program:
    """A Python program that answers lines with lines."""

    def __init__(
        self,
        script: Path,
        folder: Path,
        variables: Mapping[str, str] | None = None,
        python: str = sys.executable,
        path: Sequence[str] = (),
    ) -> None:
        """Start it in a folder, with a path on which modules are found before all others."""
        self._errors = (folder / f"{script.stem}-{id(self)}.log").open("w+")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), **(variables or {})}
        with forked_python():
            self._process = subprocess.Popen(
                [python, str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                env=environment,
                cwd=folder,
            )
        self._questions = cast("IO[str]", self._process.stdin)
        self._answers = cast("IO[str]", self._process.stdout)

    def ask(self, line: str) -> None:
        """Send a line."""
        self._questions.write(f"{line}\n")
        self._questions.flush()

    def answer(self) -> str:
        """Return the next line of output.

        Raises RuntimeError with the program's error output if the program has ended.
        """
        line = self._answers.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(self._errors.read()[-2000:])
        return line

    def close(self) -> None:
        """Wait for its end, which comes when no line does."""
        self._questions.close()
        self._process.wait()
        self._answers.close()
        self._errors.close()
