"""Why a folder is refused before anything is written."""

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import SUFFIXES, output_names
from wdsflow.shards.source.base import canonical_name
from wdsflow.text.shell import quote_path

from .working_folder import object_urls, store_of


class OtherOptions(ValueError):
    """A folder holds shards that were written with other options; ``differences`` names them."""

    def __init__(
        self, folder: Path, did: str, before: Mapping[str, object], now: Mapping[str, object]
    ) -> None:
        self.differences = list(_differences(before, now))
        super().__init__(
            f"{folder} holds shards {did} with other options: {'; '.join(self.differences)}"
        )


def require_folder(folder: Path) -> None:
    """Raise FileExistsError if a folder cannot be created at this path.

    A file has its name, or a link that leads nowhere is in the way.
    """
    for path in (folder, *folder.parents):
        if os.path.isdir(path):
            return
        if os.path.islink(path) and not os.path.exists(path):
            raise FileExistsError(
                f"{path} is a link that leads nowhere: choose another folder{_creation_hint(path)}"
            )
        if path == folder and os.path.lexists(path):
            raise FileExistsError(f"{folder} is a file: choose a folder for the output")


def refuse_inputs(urls: Iterable[Shard], paths: Iterable[Path]) -> None:
    """Raise FileExistsError if one of the files that would be written or removed is an input."""
    paths = list(paths)
    if not paths:
        return
    files = [url for url in urls if not url.is_pipe]
    store = store_of(paths[0])
    location: Callable[[Path], str]
    if store:
        inputs = object_urls(files)
        location = store.url_of
    else:
        inputs = {canonical_name(url) for url in files}
        location = os.path.realpath
    if not inputs:
        return
    for path in paths:
        if location(path) in inputs:
            raise FileExistsError(f"{path} is an input: choose another folder for the output")


def refuse_foreign_shards(
    folder: Path, run: str, ours: Container[str], counts: Container[str]
) -> None:
    """Raise FileExistsError if a folder holds foreign shards or counts.

    Foreign are shards that are not among ``ours``, and any of ``counts`` that others wrote.

    Readers of all shards in the folder would get samples twice, or foreign ones.
    """
    for path in sorted(folder.iterdir()):
        is_other_shard = path.name.lower().endswith(SUFFIXES) and path.name not in ours
        if is_other_shard or path.name in counts:
            raise FileExistsError(
                f"{path} exists already, and no {run} wrote it: a reader of the folder would take both;"
                " choose another folder"
            )


def output_paths(urls: Sequence[Shard], folder: Path, *tables: Shard) -> list[Path]:
    """Return the path of the output of each shard.

    Raises FileExistsError if a path is that of a shard, or of one of ``tables``.
    """
    paths = [folder / name for name in output_names(urls)]
    refuse_inputs([*urls, *tables], paths)
    return paths


def _creation_hint(link: Path) -> str:
    """Return how to create the folder that a link leads to, if that is possible."""
    target = os.path.realpath(link)
    # A circle of links.
    if os.path.islink(target):
        return ""
    return f", or create it: mkdir -p {quote_path(target)}"


def _differences(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    for flag in dict.fromkeys((*old, *new)):
        before, now = _spelled(old.get(flag)), _spelled(new.get(flag))
        if before != now:
            yield f"{flag} was {before}, now it is {now}"


def _spelled(value: object) -> str:
    if isinstance(value, list):
        value = ",".join(map(str, value))
    if value is True:
        return "given"
    if value is None or value is False or value == "":
        return "not given"
    return str(value)
