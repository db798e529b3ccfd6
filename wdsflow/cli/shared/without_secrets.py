"""Keeps passwords, tokens and signatures out of all that a command prints.

That includes what libraries print.
"""

import contextlib
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, TextIO, cast

from wdsflow.text.secrets import is_redacted, knows_secrets, redact, redact_known

_NOTE = "wdsflow: *** stands for a password, token or signature: put it back into a command before you paste it"


class _WithoutSecrets:
    """A stream that passes on all but secrets. ``hides``: whether something was left out."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.hides = False

    def write(self, text: str) -> int:
        shown = redact_known(text)
        self.hides = self.hides or is_redacted(shown)
        self._stream.write(shown)
        return len(text)

    def writelines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def without_secrets(words: Sequence[str]) -> Iterator[None]:
    """Hide the secrets of a command line in all that is printed in the block.

    Those of urls that the command finds are hidden, too.

    Shards and messages hide their own; this is for what exceptions and logs of libraries repeat.
    Then say what ``***`` stands for, if the command line had a secret and something was hidden.
    """
    # All words are redacted: what is secret in one of them is hidden in all that follows.
    redacted = [redact(word) for word in words]
    has_secret = redacted != list(words)
    out, err = (
        None if stream is None else _WithoutSecrets(stream) for stream in (sys.stdout, sys.stderr)
    )
    with contextlib.redirect_stdout(cast("Any", out)), contextlib.redirect_stderr(cast("Any", err)):
        try:
            yield
        finally:
            if (has_secret or knows_secrets()) and any(
                stream is not None and stream.hides for stream in (out, err)
            ):
                print(_NOTE, file=sys.stderr)


def print_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an exception that ends this process, as Python does."""
    if sys.stderr is not None:
        print(
            redact_known("".join(traceback.format_exception(kind, error, trace))),
            end="",
            file=sys.stderr,
        )
