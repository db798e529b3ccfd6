"""Shards that can be read in any order, wherever they come from."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wdsflow.shards.atomic import create, discard
from wdsflow.shards.source import Source, SourceError, open_source

_STEP = 4 << 20
_BOMB_BYTES, _BOMB_RATIO = 1 << 30, 100


@contextmanager
def seekable(url: str, folder: Path, *, allow_pipe: bool = False) -> Iterator[tuple[Source, str]]:
    """Open a shard as a plain local file, and report what is wrong with its packing; a cut is known to the file.

    What is compressed, or lies elsewhere, is first copied into ``folder``, unpacked; the copy goes with the block.
    Raises SourceError where it cannot be read, OSError where ``folder`` cannot take it.
    """
    with open_source(url, allow_pipe=allow_pipe) as source:
        if source.fd >= 0:
            yield source, ""
            return
        name, file = create(folder / "unpacked")
        try:
            _unpack(source, file)
            with open_source(str(name)) as copy:
                copy.url, copy.damage, copy.cut = url, source.damage, source.cut
                yield copy, "" if source.cut else source.damage or ""
        finally:
            discard(name, file)


def _unpack(source: Source, file: int) -> None:
    at = 0
    while (data := source.read_at(at, _STEP)) or source.lift():  # also streams that tarfile does not reach
        at += len(data)
        if at > max(_BOMB_BYTES, _BOMB_RATIO * (source.size or at)):
            raise SourceError("refused", f"expands to more than {_BOMB_RATIO} times its size: not unpacked further")
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
