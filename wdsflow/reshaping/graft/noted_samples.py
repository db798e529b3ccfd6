"""What the first pass found in a shard, noted on the disk: the values for the join, and the samples for the second pass, which need not walk over the tar again."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wdsflow.shards.samples.tar_sample import TarSample
from wdsflow.shards.tar.plain_entries import Row

AT_ONCE = 4096  # samples of a line, about


class JoinValues(NamedTuple):
    """What neighbouring samples are joined on, which of them are next to damage, and what they say of the checked columns.

    ``told``: for each sample, a value for each column, or nothing; empty if nothing is checked.
    """

    values: list[str | None]
    damaged: list[int]
    told: list[list[str | None]]

    def write(self, file: BinaryIO) -> None:
        """Append it to a file."""
        import orjson

        file.write(orjson.dumps([*self]) + b"\n")

    @staticmethod
    def read(path: Path) -> Iterator["JoinValues"]:
        """Yield what a file has. Raises OSError."""
        import orjson

        with open(path, "rb") as lines:
            yield from (JoinValues(*orjson.loads(line)) for line in lines)


class NotedSamples:
    """Neighbouring samples, as columns: where each begins and ends, and its members of some fields.

    Args:
        fields: those whose members are noted.
    """

    def __init__(self, fields: Iterable[str] = ()) -> None:
        self.keys: list[str] = []
        self.start: list[int] = []
        self.end: list[int] = []
        self.trouble: list[str] = []
        self.fields: dict[str, list[Row | None]] = {name: [] for name in fields}

    def add(self, sample: TarSample) -> None:
        """Note a sample."""
        self.keys.append(sample.key)
        self.start.append(sample.start)
        self.end.append(sample.end)
        self.trouble.append(sample.trouble)
        for name, rows in self.fields.items():
            rows.append(sample.fields.get(name))

    def sample(self, place: int) -> TarSample:
        """Return one of them, with the fields that were noted, and without its number."""
        sample = TarSample(0, self.keys[place], self.start[place])
        sample.end, sample.trouble = self.end[place], self.trouble[place]
        sample.fields = {name: row for name, rows in self.fields.items() if (row := rows[place]) is not None}
        return sample


def write_notes(file: BinaryIO, notes: NotedSamples) -> bool:
    """Append a line with some samples; return whether that is possible: names that are not UTF-8 cannot be noted."""
    import orjson

    try:
        file.write(orjson.dumps(vars(notes)) + b"\n")
    except TypeError:
        return False
    return True


def read_notes(path: Path) -> Iterator[NotedSamples]:
    """Yield the samples of all lines. Raises OSError."""
    import orjson

    with open(path, "rb") as lines:
        for line in lines:
            notes = NotedSamples()
            vars(notes).update(orjson.loads(line))
            yield notes


def noted(samples: Iterable[TarSample], fields: Sequence[str]) -> Iterator[NotedSamples]:
    """Yield samples as they would be noted, some at a time."""
    notes = NotedSamples(fields)
    for sample in samples:
        notes.add(sample)
        if len(notes.keys) == AT_ONCE:
            yield notes
            notes = NotedSamples(fields)
    if notes.keys:
        yield notes
