"""Prints the url of an output folder in an object store in place of its working folder."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from wdsflow.text.secrets import redact


@contextlib.contextmanager
def shown_as(folder: Path, out: Path | str) -> Iterator[None]:
    """Print the url of an output folder in an object store in place of its working folder."""
    if isinstance(out, Path):
        yield
        return
    url = redact(out.rstrip("/"))
    output: Any = _ReplacingStream(sys.stdout, str(folder), url)
    errors: Any = _ReplacingStream(sys.stderr, str(folder), url)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        yield


class _ReplacingStream:
    """A stream in which one text is replaced by another."""

    def __init__(self, stream: TextIO, old: str, new: str) -> None:
        self._stream = stream
        self._old = old
        self._new = new

    def write(self, text: str) -> int:
        return self._stream.write(text.replace(self._old, self._new))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
