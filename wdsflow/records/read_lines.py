"""Reads the lines of a record, and compares files with what they say."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import SourceError

from .line import Line, OneFile
from .unfinished import INSIDE

L = TypeVar("L", bound=Line)
Identity = dict[str, Any] | None
THERE: dict[str, Any] = {}  # the identity of a file that only has to exist


def lines_paths(inside: Path, stem: str) -> list[Path]:
    """Return the files with lines of a record, oldest first: that of earlier runs, and those of slices."""
    return [inside / f"{stem}.jsonl", *sorted(inside.glob(f"{stem}-*-of-*.jsonl"))]


def read_lines(
    paths: Iterable[Path], kind: type[L], is_current: Callable[[L], bool] = lambda line: True
) -> dict[str, L]:
    """Return the finished outputs by name. Of several lines for one, the last counts, but for those of earlier results."""
    found: dict[str, L] = {}
    for path in paths:
        with suppress(FileNotFoundError), open(path, "rb") as lines:
            for text in lines:
                try:
                    line = kind.from_line(text)
                except ValueError:
                    continue  # the partial line of a killed run, or one of another version: the output is written again
                before = found.get(line.name)
                if before is None or is_current(line) or not is_current(before):
                    found[line.name] = line
    return found


def is_as_written(folder: str | os.PathLike[str], run: str, kind: type[OneFile], names: Iterable[str]) -> bool:
    """Return whether runs of a command wrote all of these files of a folder, and nothing has changed them since."""
    written = dict[str, Identity]()
    with suppress(OSError):
        written = {
            name: line.identity for name, line in read_lines([Path(folder, INSIDE, f"{run}.jsonl")], kind).items()
        }
    try:
        return all(name in written and not other_file(Path(folder, name), written[name]) for name in names)
    except SourceError:
        return False


def other_file(path: Path, before: Identity) -> str:
    """Return why a file is not as it was written; "" if it is. Raises SourceError if it cannot be read."""
    try:
        now = fingerprint(str(path)) if before != THERE else before
        if before == THERE and not path.exists():
            return f"{path} is missing"
    except SourceError as error:
        if error.kind != "missing":
            raise
        return f"{path} is missing" if before is not None else ""
    return "" if now == before else f"{path} was changed since it was written"
