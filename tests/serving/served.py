"""A server of shards in a process of its own, and the set that a cut writes, to compare with."""

import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.filtering import shards
from tests.filtering.commands import run

WHERE = "min_side >= 150 and caption_words != 3"


@dataclass
class Running:
    """A server, and what it has printed."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    url: str = ""
    errors: str = ""  # on standard error, after its end

    @property
    def pattern(self) -> str:
        return self.lines[1].strip()

    def read_until(self, text: str) -> str:
        """Return the line with a text; all before it stay in ``lines``."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if text in line:
                return self.lines[-1]
        raise AssertionError(f"no line with {text!r} in {self.lines}")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.url).netloc)


@dataclass
class Reply:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


def ask(connection: http.client.HTTPConnection, path: str, method: str = "GET", **headers: str) -> Reply:
    """Send a request on a connection that stays open; ``_`` in the name of a header stands for ``-``."""
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return Reply(answer.status, answer.headers, answer.read())


@contextlib.contextmanager
def serving(*words: object, cwd: Path | None = None, until: str = "--train-num-samples") -> Iterator[Running]:
    """Run ``wdsflow serve`` on a free port until the block ends; it has printed a line with ``until``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "wdsflow", "serve", *map(str, words), "--port", "0"],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    running = Running(process)
    try:
        running.url = re.sub(".* at ", "", running.read_until("serving "))
        running.read_until(until)
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        _, running.errors = process.communicate()


def write_set(folder: Path, shards_: int = 3, samples: int = 20) -> Path:
    """Write shards and their scores (``in``, ``scores``), and the tars that a cut keeps (``cut``)."""
    shards.write_shards(folder / "in", shards_, samples)
    assert (
        run("measure", folder / "in", "-o", folder / "scores", "--scores", "min_side,caption_words", "--jobs", 0).status
        == 0
    )
    cut = ("--ledger", folder / "scores", "--where", WHERE, "--empty", "write", "--jobs", 0)
    assert run("cut", folder / "in", "-o", folder / "cut", *cut).status == 0
    return folder


def served_set(folder: Path) -> contextlib.AbstractContextManager[Running]:
    """Serve the same choice."""
    return serving(folder / "in", "--ledger", folder / "scores", "--where", WHERE)
