"""The mark of a folder with unfinished shards, and the run that left it.

A folder has either the mark or the counts.
"""

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from wdsflow.shards.atomic import write_file
from wdsflow.shards.source.base import local_path
from wdsflow.shards.source.limits import call_within_limit, slow_request_reported
from wdsflow.shards.source.remote import filesystem
from wdsflow.text.shell import command, quote_path

from .shard_counts import COUNTS, read_counts, remove_counts, write_counts

# No reader of shards looks into it.
INSIDE = ".wdsflow"
MARK = "unfinished.json"
# Bytes of a mark.
_LARGEST = 1 << 20
RUNS = ("filter", "measure", "repair", "reshard", "graft", "pack", "index")
_command: ContextVar[str] = ContextVar("command", default="")


class Unfinished(NamedTuple):
    """A run that has not written all of its shards.

    Attributes:
        run: the command, such as "reshard".
        shards: that it writes, at most.
        command: the command line that resumes it; "" if a program called it.
        place: the folder in which that has to be run.
    """

    run: str
    shards: int
    command: str
    place: str

    @property
    def title(self) -> str:
        """The command, for messages."""
        return f"wdsflow {self.run}" if self.run in RUNS else "a wdsflow command"

    @property
    def command_words(self) -> list[str]:
        """The words of the command; none if it is not known, or would run other programs.

        It comes from a file next to the shards, which may not be trusted.
        """
        try:
            words = shlex.split(self.command)
        except ValueError:
            return []
        if words[:2] != ["wdsflow", self.run] or self.run not in RUNS:
            return []
        if "$'" in self.command or "--allow-pipe" in words or not self.command.isprintable():
            return []
        return words

    def command_from_here(self, words: Sequence[str]) -> str:
        """Return a command line that runs these words in the folder of the run.

        Each word is quoted.
        """
        if not words or os.path.realpath(self.place) == os.path.realpath("."):
            return command(words)
        if not (self.place.isprintable() and os.path.isdir(self.place)):
            return ""
        return f"cd {quote_path(self.place)} && {command(words)}"


@contextmanager
def resumed_by(command: str) -> Iterator[None]:
    """Record this command line as the one that resumes the runs of the block."""
    token = _command.set(command)
    try:
        yield
    finally:
        _command.reset(token)


def command_now() -> str:
    """Return the command line that resumes the current run; "" if a program called it."""
    return _command.get()


def begin_shards(folder: Path, run: str, shards: int) -> None:
    """Mark a folder before the first shard is written.

    Existing counts are moved into its ``.wdsflow`` folder. Raises OSError.
    """
    mark = Unfinished(run, shards, command_now(), os.getcwd())
    inside = folder / INSIDE
    write_file(inside / MARK, json.dumps(mark._asdict(), indent=1).encode() + b"\n")
    for name in COUNTS:
        with suppress(FileNotFoundError):
            os.replace(folder / name, inside / name)


def end_shards(folder: Path, samples: Mapping[str, int]) -> None:
    """Add the counts of a finished run to earlier ones, and remove the mark.

    Raises OSError; the mark then stays.
    """
    counts = {**read_counts(folder, folder / INSIDE), **samples}
    write_counts(folder, dict(sorted(counts.items())))
    _unmark(folder)


def forget_shards(folder: Path) -> None:
    """Remove the mark, and the counts of shards that were removed; those of others stay."""
    remaining = read_counts(folder, folder / INSIDE) | read_counts(folder)
    if remaining:
        write_counts(folder, dict(sorted(remaining.items())))
    else:
        remove_counts(folder)
    _unmark(folder)


def undo_begin(folder: Path) -> None:
    """Undo ``begin_shards``: no shard was written."""
    for name in COUNTS:
        with suppress(FileNotFoundError):
            os.replace(folder / INSIDE / name, folder / name)
    _unmark(folder)


def unfinished_run(folder: str | os.PathLike[str]) -> Unfinished | None:
    """Return the run that has not written all shards of a folder or url.

    It is still running, or ended early. None if there is no such run.
    """
    try:
        mark = json.loads(_read_mark(folder))
        return Unfinished(
            str(mark["run"]), int(mark["shards"]), str(mark["command"]), str(mark["place"])
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        # Such as one that a full disk left empty.
        return Unfinished("wdsflow", 0, "", "")


def _read_mark(folder: str | os.PathLike[str]) -> bytes:
    if local_path(os.fspath(folder)) is not None:
        with open(Path(folder, INSIDE, MARK), "rb") as file:
            return file.read(_LARGEST)
    url = os.fspath(folder)
    system, path = filesystem(url)
    try:
        with slow_request_reported(url):
            data: bytes = call_within_limit(
                lambda: system.cat_file(f"{path}/{INSIDE}/{MARK}", end=_LARGEST), url
            )
    except Exception as error:
        # Every file system raises its own; a mark that cannot be read is none.
        raise FileNotFoundError from error
    return data


def _unmark(folder: Path) -> None:
    # The mark last: a run that is killed here is finished by the next.
    for name in (*COUNTS, MARK):
        (folder / INSIDE / name).unlink(missing_ok=True)
