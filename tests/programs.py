"""Programs next to tests, forked from this process before any test has run: what it has imported they have, too.

PyTorch and OpenCLIP take eight seconds of processor time to import. Where a process cannot be forked safely, it is started.
"""

import contextlib
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from support.forked_pytest import end


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
        if python != sys.executable or sys.platform != "linux":
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
            process = subprocess.Popen([python, str(script)], **pipes, text=True, env=environment, cwd=folder)  # type: ignore[call-overload]
            self._questions, self._answers = process.stdin, process.stdout
            self._wait = process.wait
            return
        (theirs, questions), (answers, ours) = os.pipe(), os.pipe()
        child = os.fork()
        if not child:
            for number, each in enumerate((theirs, ours, self._errors.fileno())):
                os.dup2(each, number)
            # The ends of pipes are closed: readers wait for the last one. Their numbers stay taken, as objects of this process,
            # such as pytest's log, would else write into what the program opens.
            nothing = os.open(os.devnull, os.O_RDWR)
            for name in os.listdir("/proc/self/fd"):
                if 2 < int(name) != nothing:
                    with contextlib.suppress(OSError):  # the listing's own, closed by now
                        os.dup2(nothing, int(name))
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            sys.path[:0] = path
            _run(script)
        os.close(theirs)
        os.close(ours)
        self._questions, self._answers = open(questions, "w"), open(answers)  # noqa: SIM115 - close() closes them
        self._wait = lambda: os.waitpid(child, 0)

    def ask(self, line: str) -> None:
        """Send a line."""
        self._questions.write(f"{line}\n")
        self._questions.flush()

    def answer(self) -> str:
        """Return the next line; RuntimeError with what it printed as an error if the program has ended."""
        line: str = self._answers.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(self._errors.read()[-2000:])
        return line

    def close(self) -> None:
        """Wait for its end, which comes when no line does."""
        self._questions.close()
        self._wait()
        self._answers.close()
        self._errors.close()


def _run(script: Path) -> NoReturn:
    """Run a script as Python does, and end as ``wdsflow`` does where PyTorch is loaded."""
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    status: object = 0
    try:
        sys.argv = [str(script)]
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as error:
        status = error.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    end(status if isinstance(status, int) else 1)
