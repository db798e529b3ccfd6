"""The samples of a shard as the first pass found them, noted on the disk: the second pass need not walk over the tar again."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from wdsflow.shards.samples.tar_sample import Range, TarSample
from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.plain_entries import Row

Note = tuple[str, int, int, str, list[tuple[str, Row]]]  # key, start, end, trouble, some of the fields


def note_of(sample: TarSample, fields: Iterable[str]) -> Note:
    """Return what is noted of a sample: its range, and those of some of its fields."""
    there = sample.fields
    noted = [(name, there[name]) for name in fields if name in there]
    return sample.key, sample.start, sample.end, sample.trouble, noted


def write_notes(file: BinaryIO, notes: list[Note]) -> bool:
    """Append a line with some samples; return whether that is possible: names that are not UTF-8 cannot be noted."""
    import orjson

    try:
        file.write(orjson.dumps(notes) + b"\n")
    except TypeError:
        return False
    return True


class NotedSamples:
    """Iterates over the samples like ``Samples``, with the fields that were noted; ``headers``: global headers of the tar."""

    def __init__(self, path: Path, source: Source, headers: Iterable[Iterable[int]]) -> None:
        self.source, self._path = source, path
        self.headers: list[Range] = [(start, end) for start, end in headers]

    def read(self, row: Row) -> bytes:
        """Return the contents of a member. Raises OSError."""
        return self.source.read_at(row[2], row[1])

    def __iter__(self) -> Iterator[TarSample]:
        import orjson

        number = 0
        with open(self._path, "rb") as lines:
            for line in lines:
                notes: list[Any] = orjson.loads(line)
                for key, start, end, trouble, fields in notes:
                    sample = TarSample(number, key, start)
                    sample.end, sample.trouble = end, trouble
                    sample.fields = dict(fields)
                    yield sample
                    number += 1
