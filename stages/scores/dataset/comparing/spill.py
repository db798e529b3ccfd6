"""Rows that are sorted into parts, in memory while they are few and in files from then on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]  # one dimension, of a structured type


class Spill:
    """Rows by part. At most about ``memory`` bytes of them are held; the files are in ``folder`` as ``name``-number."""

    def __init__(self, folder: Path, name: str, kind: np.dtype[Any], parts: int, memory: int) -> None:
        self.parts, self.kind = parts, kind
        self.counts = np.zeros(parts, np.int64)  # rows by part
        self._folder, self._name, self._memory = folder, name, memory
        self._held: list[list[Rows]] = [[] for _ in range(parts)]
        self._size = 0
        self._written: set[int] = set()

    def add(self, rows: Rows, parts: NDArray[Any]) -> None:
        """Add rows, each to the part whose number is given."""
        if not len(rows):
            return
        order = np.argsort(parts, kind="stable")
        rows, parts = rows[order], parts[order]
        starts = np.flatnonzero(np.diff(parts, prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
            part = int(parts[start])
            self.counts[part] += stop - start
            self._held[part].append(rows[start:stop])
        self._size += rows.nbytes
        if self._size > self._memory:
            self._flush()

    def part(self, part: int, most: int) -> Iterator[Rows]:
        """Yield the rows of a part, at most ``most`` at a time, as often as asked."""
        if part in self._written:
            with self._file(part).open("rb") as file:
                while data := file.read(most * self.kind.itemsize):
                    yield np.frombuffer(data, self.kind)
        held = self._held[part]
        if held:
            rows = held[0] if len(held) == 1 else np.concatenate(held)
            self._held[part] = [rows]
            yield from (rows[start : start + most] for start in range(0, len(rows), most))

    def take(self, part: int) -> Rows:
        """Return all rows of a part, and forget them."""
        pieces = [np.fromfile(self._file(part), self.kind)] if part in self._written else []
        rows = np.concatenate([np.zeros(0, self.kind), *pieces, *self._held[part]])
        self.forget(part)
        return rows

    def forget(self, part: int) -> None:
        """Give up the rows of a part."""
        self._size -= sum(rows.nbytes for rows in self._held[part])
        self._held[part] = []
        if part in self._written:
            self._written.remove(part)
            self._file(part).unlink()

    def _file(self, part: int) -> Path:
        return self._folder / f"{self._name}-{part}"

    def _flush(self) -> None:
        for part, held in enumerate(self._held):
            if held:
                with self._file(part).open("ab") as file:
                    file.writelines(rows.tobytes() for rows in held)
                self._written.add(part)
        self._held = [[] for _ in range(self.parts)]
        self._size = 0
