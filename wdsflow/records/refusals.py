"""Why a folder is refused before anything is written."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wdsflow.shards.source.base import local_file
from wdsflow.text.shell import quote_path


class OtherOptions(ValueError):
    """A folder holds shards that were written with other options; ``differences`` names them."""

    def __init__(self, folder: Path, did: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        self.differences = list(_differences(before, now))
        super().__init__(f"{folder} holds shards {did} with other options: {'; '.join(self.differences)}")


def need_folder(folder: Path) -> None:
    """Raise FileExistsError if no folder can be made there: a file has its name, or a link that leads nowhere."""
    for each in (folder, *folder.parents):
        if os.path.isdir(each):
            return
        if os.path.islink(each) and not os.path.exists(each):
            there = os.path.realpath(each)
            create = "" if os.path.islink(there) else f", or create it: mkdir -p {quote_path(there)}"
            raise FileExistsError(f"{each} is a link that leads nowhere: choose another folder{create}")
        if each == folder and os.path.lexists(each):
            raise FileExistsError(f"{folder} is a file: choose a folder for the output")


def refuse_inputs(urls: Iterable[str], paths: Iterable[Path]) -> None:
    """Raise FileExistsError if one of the files that would be written or removed is an input."""
    local = (local_file(url) for url in urls)
    inputs = {os.path.realpath(path) for path in local if path is not None}
    for path in paths if inputs else ():
        if os.path.realpath(path) in inputs:
            raise FileExistsError(f"{path} is an input: choose another folder for the output")


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for flag in dict.fromkeys((*old, *new)):
        before, now = _spelled(old.get(flag)), _spelled(new.get(flag))
        if before != now:
            yield f"{flag} was {before}, now it is {now}"


def _spelled(value: Any) -> str:
    if isinstance(value, list):
        value = ",".join(map(str, value))
    return "given" if value is True else str(value) if value else "not given"
