"""Progress bars that count shards, on standard error: standard output can be piped."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .printing import console

if TYPE_CHECKING:
    from rich.progress import Progress


@contextlib.contextmanager
def shard_bars(label: str, *more: str, counted: str = "") -> Iterator["Progress | None"]:
    """Yield bars that count shards; None if standard error is not a terminal.

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

    columns = [TextColumn(label), BarColumn()]
    if counted:
        columns.append(TextColumn(counted))
    else:
        columns += [MofNCompleteColumn(), TextColumn("shards"), TimeRemainingColumn()]
    columns += [TextColumn(template) for template in more]
    with Progress(*columns, console=console(sys.stderr), transient=True) as bars:
        yield bars


@contextlib.contextmanager
def progress() -> Iterator[Callable[..., Callable[[object], None] | None]]:
    """Yield a function that starts a progress bar, given the number of shards and a label.

    The function draws only on a terminal.

    It returns a function to call after each shard.
    """
    with shard_bars("reading {task.description}") as bars:

        def begin(total: int, label: str = "") -> Callable[[object], None] | None:
            if bars is None:
                return None
            task = bars.add_task(label, total=total)
            return lambda _: bars.advance(task)

        yield begin
