"""Samples with the same fields as the one before, made many at a time.

In most shards, most samples are of this kind.
"""

from collections.abc import Sequence

from wdsflow.shards.tar.plain_entries import Row

from .repeats import RepeatFinder
from .tar_sample import TarSample

# Fields of a sample whose repetitions are recognized.
_MOST_FIELDS = 64


class RepeatedSamples:
    """Makes the samples after one that has the usual fields.

    Attributes:
        names: the usual fields, which are those of an earlier sample.
    """

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        # The ends of its members' names, after the key, such as ".jpg".
        self._endings: tuple[str, ...] = ()
        self._repeats = RepeatFinder()

    def learn_fields(self, sample: TarSample) -> None:
        """Take the fields of a sample for the usual ones."""
        rows = sample.fields.values()
        if len(rows) > _MOST_FIELDS or sample.trouble:
            return
        if not all(row[4] == "file" for row in rows):
            return
        key_length = len(sample.key)
        endings = tuple(row[0][key_length:] for row in rows)
        if endings != self._endings:
            self.names = tuple(sample.fields)
            self._endings = endings
        sample.names = self.names

    def after(self, sample: TarSample, rows: Sequence[Row], at: int) -> list[TarSample]:
        """Return consecutive samples from ``at`` on that have the fields of ``sample``.

        Each follows directly after the one before.

        There may be more of them than are returned.
        """
        names = self.names
        if self._repeats.pause:
            self._repeats.pause -= 1
            return []
        if sample.trouble:
            return []
        if sample.names is not names and tuple(sample.fields) != names:
            return []
        sample.names = names
        keys = self._repeats.keys(rows, at, self._endings)
        if not keys:
            return []
        width = len(names)
        members = rows[at : at + width * len(keys)]
        starts = [row[3] for row in members]
        ends = [data + (size + 511 & -512) for _, size, data, _, _ in members]
        # Each member begins where the one before ends, or something is between them.
        ends_before = [sample.end, *ends[:-1]]
        if starts != ends_before:
            del keys[_first_not_adjacent(starts, ends_before) // width :]
        samples: list[TarSample] = []
        first = 0
        for number, key in enumerate(keys, sample.number + 1):
            after_last = first + width
            repeated = TarSample(number, key, starts[first])
            repeated.fields = dict(zip(names, members[first:after_last], strict=True))
            repeated.names = names
            repeated.end = ends[after_last - 1]
            samples.append(repeated)
            first = after_last
        return samples


def _first_not_adjacent(starts: Sequence[int], ends_before: Sequence[int]) -> int:
    """Return the index of the first member that does not begin where the one before ends."""
    pairs = zip(starts, ends_before, strict=True)
    return next(index for index, (start, end) in enumerate(pairs) if start != end)
