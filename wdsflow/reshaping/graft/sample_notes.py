"""Notes on where the samples of a shard are.

The first pass writes them, so the second need not walk through the tar.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.shards.samples.tar_samples import TarSample

if TYPE_CHECKING:
    from wdsflow.shards.tar.plain_entries import Row

# Ending of the file of a shard.
NOTES = ".samples"
# Samples of a line, about.
AT_ONCE = 4096


class NotedSamples:
    """Neighbouring samples, as columns: start, end and members of some ``fields`` of each."""

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

    def sample(self, index: int) -> TarSample:
        """Return one of them, with the fields that were noted, and without its number."""
        sample = TarSample(0, self.keys[index], self.start[index])
        sample.end, sample.trouble = self.end[index], self.trouble[index]
        sample.fields = {
            name: row for name, rows in self.fields.items() if (row := rows[index]) is not None
        }
        return sample

    @staticmethod
    def read(files: Path) -> Iterator["NotedSamples"]:
        """Yield the samples of a shard. ``files``: its files, without ending. Raises OSError."""
        import orjson

        with open(files.with_suffix(NOTES), "rb") as lines:
            for line in lines:
                notes = NotedSamples()
                vars(notes).update(orjson.loads(line))
                yield notes

    @staticmethod
    def of(samples: Iterable[TarSample], fields: Sequence[str]) -> Iterator["NotedSamples"]:
        """Yield samples in the noted form, in chunks."""
        notes = NotedSamples(fields)
        for sample in samples:
            notes.add(sample)
            if len(notes.keys) == AT_ONCE:
                yield notes
                notes = NotedSamples(fields)
        if notes.keys:
            yield notes
