"""Advice on the shards of a command: unmatched patterns, unreadable or repeated shards."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from wdsflow.records.working_folder import remote_url
from wdsflow.shards.source.base import local_path
from wdsflow.text.shell import escape

from .nearest_paths import nearest_shards
from .refuse import refuse
from .typed import Typed

if TYPE_CHECKING:
    from wdsflow.records.unfinished import Unfinished
    from wdsflow.scan.evidence import ShardEvidence
    from wdsflow.shards.urls import NoShards

_QUOTE = "quote the pattern to keep the shell from expanding braces; folders work too"


def refuse_no_shards(error: "NoShards", typed: Typed) -> NoReturn:
    """Report that a pattern matches no shards, with a suggestion; exit with status 2."""
    refuse(str(error), *advise_on_no_shards(error, typed))


def advise_on_no_shards(error: "NoShards", typed: Typed) -> Iterator[str]:
    """Yield suggestions for a pattern that matches no shards."""
    from wdsflow.shards.urls import NEED_NO_COMMAND, JsonLinesGiven, PipeNotAllowed

    if isinstance(error, PipeNotAllowed) and "--allow-pipe" in typed.options():
        yield f"if it may run: {typed.command_with(allow_pipe=True)}"
        yield NEED_NO_COMMAND
        return
    run = _run_without_shards(error.pattern)
    if run is not None:
        yield f"{run.title} did not finish, or still runs: none of its shards are written"
        command = run.command_from_here(run.command_words)
        if command:
            yield f"to resume it: {command}"
        return
    yield error.hint or _QUOTE
    if not isinstance(error, JsonLinesGiven):
        yield from _nearest_command(error.pattern, typed)


def refuse_none_read(shards: "Sequence[ShardEvidence]", typed: Typed) -> NoReturn:
    """Report that no shard could be read, and exit with status 2.

    The message has a suggestion if the first shard does not exist.
    """
    from wdsflow.validate.verdicts.wording import unreadable_text

    hints: Sequence[str] = ()
    if shards and shards[0].error == "missing":
        hints = list(_nearest_command(shards[0].url, typed))
    refuse(unreadable_text(shards), *hints)


def warn_of_repeated_shard(urls: list[str]) -> None:
    """Warn on standard error of the first shard that is listed twice.

    Its samples are written twice.
    """
    from wdsflow.shards.source.base import canonical_name
    from wdsflow.shards.urls import expand

    seen: set[str] = set()
    for url in expand(urls, allow_pipe=True).urls:
        location = canonical_name(url)
        if location in seen:
            print(
                f"wdsflow: {escape(url, 300)} is named twice: its samples are written twice",
                file=sys.stderr,
            )
            return
        seen.add(location)


def _run_without_shards(pattern: str) -> "Unfinished | None":
    """Return the unfinished run that writes shards into the folder of a pattern.

    None if there is none.
    """
    from wdsflow.records.unfinished import INSIDE, MARK, unfinished_run

    path = local_path(pattern)
    if path is None:
        if remote_url(pattern) and pattern.endswith("/"):
            return unfinished_run(pattern.rstrip("/"))
        return None
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    if not os.path.isfile(os.path.join(folder, INSIDE, MARK)):
        return None
    return unfinished_run(folder)


def _nearest_command(pattern: str, typed: Typed) -> Iterator[str]:
    """Yield the command with shards of a similar name for a pattern without matches, if any."""
    nearest = nearest_shards(pattern) if pattern else ""
    if not nearest:
        return
    if len(typed.given.get("urls") or ()) == 1:
        yield typed.command_with(urls=[nearest])
    else:
        yield f"did you mean {nearest}?"
