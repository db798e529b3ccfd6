"""Advice for files and folders that cannot be read or written, or that another run wrote."""

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from wdsflow.records.working_folder import store_of
from wdsflow.shards.written_names import pattern_of_shard

from .nearest_paths import existing
from .output_files import is_misplaced, refuse_write
from .refuse import refuse_in_lines, refuse_unreadable
from .typed import Typed, unused_path

# Commands with more shards than these name them in a file.
_MOST_URLS = 5


def advise_on_existing_file(_: Exception, typed: Typed) -> Iterator[str]:
    """Yield the command with another folder, if it writes one."""
    if "out" in typed.given:
        yield f"elsewhere: {typed.command_with_other_output()}"


def advise_on_other_options(_: Exception, typed: Typed) -> Iterator[str]:
    """Yield the commands that replace or keep outputs written with other options."""
    outputs = "it" if typed.is_filter else "them"
    is_slice = bool(typed.given.get("count"))
    if not is_slice:
        yield f"to replace {outputs}: {typed.command_with(restart=True)}"
    yield f"to keep {outputs}: {typed.command_with_other_output()}"


def refuse_output(error: OSError, typed: Typed) -> NoReturn:
    """Report the file that could not be written, and a fix."""
    if typed.is_filter:
        refuse_run_output(error, typed)
    if is_misplaced(error, Path(typed.out or ".")):
        refuse_write(error, f"elsewhere: {typed.command_with_other_output()}")
    finished = "files" if typed.name == "index" else "shards"
    refuse_write(
        error, f"free space there: finished {finished} are kept, and the same command resumes"
    )


def refuse_run_output(error: OSError, typed: Typed) -> NoReturn:
    """Report the file that a run of filter or measure could not write, and a fix."""
    message = f"cannot write: {error.strerror or error}"
    if error.filename is not None and str(error.filename) not in str(error.strerror):
        message += f": {error.filename}"
    exports = typed.given.get("export") or ()
    is_export = error.filename in [str(path) for path in exports]
    if is_export and is_misplaced(error, Path(error.filename)):
        new_exports = [
            unused_path(path) if str(path) == error.filename else path for path in exports
        ]
        refuse_in_lines(message, f"elsewhere: {typed.command_with(export=new_exports)}")
    if "out" in typed.given and is_misplaced(error, Path(typed.given["out"])):
        refuse_in_lines(message, f"elsewhere: {typed.command_with_other_output()}")
    refuse_in_lines(
        message,
        f"finished shards are kept, partial ones removed; to resume when that is fixed: {typed.command_with(restart=None)}",
    )


def refuse_permission(error: PermissionError, typed: Typed) -> NoReturn:
    """Report a file that cannot be read, or an output that cannot be written, with a fix."""
    path = str(error.filename or "")
    outputs: list[str] = []
    if typed.is_resumable:
        outputs = [str(typed.out), *map(str, typed.given.get("export") or ())]
    if not path or any(path == output or path.startswith(f"{output}/") for output in outputs):
        refuse_output(error, typed)
    refuse_unreadable(error)


def without_unreadable(typed: Typed, unreadable: set[str], out: Path) -> str:
    """Return the command without the unreadable shards, with --restart; "" if there is none.

    Many shards are listed in a file in the folder ``out``.
    """
    urls = [url for url in existing(typed.given["urls"]) if url not in unreadable]
    if not urls:
        return ""
    if len(urls) <= _MOST_URLS:
        return typed.command_with(urls=urls, restart=True)
    # A list is a local file, with a name a line, and without passwords.
    if store_of(out) or any("\n" in url or url.has_hidden_part for url in urls):
        return ""
    listed = out / ".wdsflow" / "readable.txt"
    lines = "".join(f"{pattern_of_shard(url)}\n" for url in urls)
    listed.write_text(lines, encoding="utf-8", errors="surrogateescape")
    return typed.command_with(urls=[f"@{listed}"], restart=True)
