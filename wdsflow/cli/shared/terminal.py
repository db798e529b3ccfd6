"""Consoles, one-line errors, progress bars and atomic output, for all commands."""

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from wdsflow.records.train_data import train_data_lines
from wdsflow.records.working_folder import remote_url, store_of
from wdsflow.shards.atomic import create, discard, naming, write_file
from wdsflow.shards.source.base import local_path
from wdsflow.text.secrets import redact
from wdsflow.text.shell import escape, quote_path

from .typed import Typed, free

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from wdsflow.records.unfinished import Unfinished
    from wdsflow.scan.evidence import ShardEvidence
    from wdsflow.shards.urls import NoShards

WRONG_USE = 2
# Characters of a message: its commands must not be truncated.
_LONG = 20_000
_PIPE_WIDTH = 100
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL = (*_NO_ROOM, errno.EROFS)
_MISPLACED = frozenset(
    (
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOTDIR,
        errno.EEXIST,
        errno.EISDIR,
        errno.ENAMETOOLONG,
    )
)


def fail(message: str, *hints: str) -> NoReturn:
    """Report the problem in one line, and fixes in further lines; exit with status 2."""
    print(f"wdsflow: {escape(message, _LONG)}", file=sys.stderr)
    for hint in filter(None, hints):
        print(f"  {escape(hint, _LONG)}", file=sys.stderr)
    sys.exit(WRONG_USE)


def no_shards(error: "NoShards", typed: Typed | None = None) -> NoReturn:
    """Report that a pattern matches no shards, with a suggestion; exit with status 2."""
    fail(str(error), *about_shards(error, typed))


def about_shards(error: "NoShards", typed: Typed | None) -> Iterator[str]:
    """Yield suggestions for a pattern that matches no shards."""
    from wdsflow.shards.urls import NEED_NO_COMMAND, JsonLinesGiven, PipeNotAllowed

    if (
        isinstance(error, PipeNotAllowed)
        and typed is not None
        and "--allow-pipe" in typed.options()
    ):
        yield f"if it may run: {typed.again(allow_pipe=True)}"
        yield NEED_NO_COMMAND
        return
    if (run := _run_without_shards(error.pattern)) is not None:
        yield f"{run.title} did not finish, or still runs: none of its shards are written"
        if command := run.from_here(run.words):
            yield f"to resume it: {command}"
        return
    yield (
        error.hint or "quote the pattern to keep the shell from expanding braces; folders work too"
    )
    if typed is not None and not isinstance(error, JsonLinesGiven):
        yield from instead(error.pattern, typed)


def _run_without_shards(pattern: str) -> "Unfinished | None":
    """Return the run that was to write shards into the folder of a pattern; None if there is none."""
    from wdsflow.records.unfinished import INSIDE, MARK, unfinished_run

    path = local_path(pattern)
    if path is None:
        return (
            unfinished_run(pattern.rstrip("/"))
            if remote_url(pattern) and pattern.endswith("/")
            else None
        )
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    return unfinished_run(folder) if os.path.isfile(os.path.join(folder, INSIDE, MARK)) else None


def instead(pattern: str, typed: Typed) -> Iterator[str]:
    """Yield the command with suggested shards for a pattern without matches, if any."""
    from .nearest_paths import nearest_shards

    near = nearest_shards(pattern) if pattern else ""
    if not near:
        return
    if len(typed.given.get("urls") or ()) == 1:
        yield typed.again(urls=[near])
    else:
        yield f"did you mean {near}?"


def none_read(shards: "Sequence[ShardEvidence]", typed: Typed) -> NoReturn:
    """Report that no shard could be read, with a suggestion if the first does not exist; exit with status 2."""
    from wdsflow.validate.verdicts.wording import unreadable_text

    fail(
        unreadable_text(shards),
        *(instead(shards[0].url, typed) if shards and shards[0].error == "missing" else ()),
    )


def console(stream: TextIO | None = None) -> "Console":
    """Return a console that never interprets data, obeys NO_COLOR, and does not wrap at 80 in a pipe."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            # Handled in ending.py.
            raise BrokenPipeError

    stream = stream or sys.stdout
    options: dict[str, Any] = {"color_system": None} if os.environ.get("NO_COLOR") else {}
    if not stream.isatty():
        options["width"] = (
            int(os.environ["COLUMNS"]) if os.environ.get("COLUMNS", "").isdigit() else _PIPE_WIDTH
        )
    elif shutil.get_terminal_size().columns > 120:
        # Longer lines are hard to read.
        options["width"] = 120
    return Quiet(file=stream, markup=False, highlight=False, emoji=False, **options)


def print_lines(*lines: str) -> None:
    """Print lines on standard output; none of them is wrapped."""
    # Not by a console: the import of rich takes as long as some commands.
    for line in lines:
        print(line)


class _Renaming:
    """A stream in which one text stands for another."""

    def __init__(self, stream: TextIO, old: str, new: str) -> None:
        self._stream, self._old, self._new = stream, old, new

    def write(self, text: str) -> int:
        return self._stream.write(text.replace(self._old, self._new))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def shown_as(folder: Path, out: Path | str) -> Iterator[None]:
    """Show the url of an output folder in an object store in place of its working folder, in all that is printed."""
    if isinstance(out, Path):
        yield
        return
    streams: list[Any] = [
        _Renaming(stream, str(folder), redact(out.rstrip("/")))
        for stream in (sys.stdout, sys.stderr)
    ]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        yield


def as_folder(out: Path) -> str:
    """Return an output folder as an argument of ``validate``: the url of one ends in a slash."""
    return f"{out}/" if store_of(out) else str(out)


def new_shards_lines(out: Path, left_out: Sequence[str] = ()) -> Iterator[str]:
    """Yield the end of every command that writes shards: how to train on those of a folder, and how to check them.

    ``left_out``: names of outputs that do not exist, because no sample was kept.
    """
    url = as_folder(out)
    yield from train_data_lines(out, url, left_out)
    yield f"next: wdsflow validate {quote_path(url)}"


def check_output(path: Path | None, name: str, typed: Typed) -> None:
    """Fail before any work if a file could not be written there; ``name`` is that of the parameter."""
    if path is None:
        return
    elsewhere = f"elsewhere: {typed.again(**{name: free(path)})}"
    if path.is_dir():
        fail(f"{path} is a folder", elsewhere)
    if path.parent.is_file():
        fail(f"{path.parent} is a file, not a folder", elsewhere)
    if not path.parent.is_dir():
        fail(f"the folder {path.parent} does not exist", f"mkdir -p {quote_path(str(path.parent))}")
    if not is_device(path):
        with _written(elsewhere):
            discard(*create(path))


def write_output(path: Path, text: str) -> None:
    """Write a file atomically: if the run dies, the old file stays unchanged."""
    data = text.encode("utf-8", "backslashreplace")
    with _written("free space there, or name another file"), naming(path):
        if is_device(path):
            path.write_bytes(data)
        else:
            write_file(path, data)


def is_device(path: Path) -> bool:
    """Return whether a path is a pipe or a device. /dev/stdout always is; files in /dev/shm are not."""
    in_dev = path.is_relative_to("/dev") and not path.is_relative_to("/dev/shm")  # noqa: S108
    return path.exists() and (in_dev or not path.is_file())


def check_logs(path: str) -> None:
    """Fail before any work if OpenCLIP could not write its logs (its first rank does); "none" means no folder."""
    from wdsflow.training.ranks import rank_and_world

    if path and path.lower() != "none" and not rank_and_world()[0]:
        folder = Path(path)
        try:
            with naming(folder):
                discard(
                    *create(
                        next(each for each in (folder, *folder.parents) if each.exists()) / "log"
                    )
                )
        except OSError as error:
            cannot_write(error, "name another folder with --logs after --, or --logs none")


@contextlib.contextmanager
def full_disk(hint: str) -> Iterator[None]:
    """Exit with status 2 if a disk has no space for a file, and report the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        try:
            cannot_write(error, hint)
        finally:
            if int(os.environ.get("WORLD_SIZE") or 1) > 1:
                sys.stderr.flush()
                # A process group whose other ranks have ended may hang at shutdown.
                os._exit(WRONG_USE)


@contextlib.contextmanager
def _written(hint: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        # The output was closed: the file is not at fault.
        raise
    except OSError as error:
        cannot_write(error, hint)


def is_misplaced(error: OSError, out: Path) -> bool:
    """Return whether a file, or an output folder, could be written elsewhere; /proc reports a new file as missing."""
    return error.errno in _MISPLACED or (error.errno == errno.ENOENT and not out.exists())


def cannot_write(error: OSError, hint: str) -> NoReturn:
    """Report the file that cannot be written, and why; exit with status 2."""
    path = f" {error.filename}" if error.filename else ""
    fail(f"cannot write{path}: {error.strerror or error}", hint)


@contextlib.contextmanager
def shard_bars(label: str, *more: str, counted: str = "") -> Iterator["Progress | None"]:
    """Yield bars that count shards, on standard error: standard output can be piped. None if that is not a terminal.

    ``label`` and ``more`` are rich templates before and after a bar. ``counted`` is one in place of
    the number of steps and the time that is left by them.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = [MofNCompleteColumn(), TextColumn("shards"), TimeRemainingColumn()]
    if counted:
        columns = [TextColumn(counted)]
    shown = [TextColumn(label), BarColumn(), *columns, *map(TextColumn, more)]
    with Progress(*shown, console=console(sys.stderr), transient=True) as bars:
        yield bars


@contextlib.contextmanager
def progress() -> Iterator[Callable[..., Callable[[object], None] | None]]:
    """Yield a function that starts a bar, given the number of shards and its label; it draws only on a terminal.

    It returns a function to call after each shard.
    """
    with shard_bars("reading {task.description}") as bars:

        def begin(total: int, what: str = "") -> Callable[[object], None] | None:
            if bars is None:
                return None
            task = bars.add_task(what, total=total)
            return lambda _: bars.advance(task)

        yield begin


def warn_of_twice(urls: list[str]) -> None:
    """Warn on stderr of a shard that is listed twice: its samples are then written twice."""
    from wdsflow.shards.source.base import place_of
    from wdsflow.shards.urls import expand

    seen: set[str] = set()
    for url in expand(urls, allow_pipe=True).urls:
        place = place_of(url)
        if place in seen:
            print(
                f"wdsflow: {escape(url, 300)} is named twice: its samples are written twice",
                file=sys.stderr,
            )
            return
        seen.add(place)
