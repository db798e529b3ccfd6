"""What the content of a pipeline's output shows: how many samples are certainly in it, and how many only stand in for others.

The output is a list of rows, one for each sample that came out, with a mark for each of its columns. The input is a list of
samples, with marks of their fields. Three questions are answered.

``replaced``
    How many rows are repeats that the input does not have? Each stands in the place of a sample that did not come out. A
    column that is a field of the shards, unchanged, may show each value as often as the shards have it. A column of pictures
    that were decoded or resized has other marks than the shards, but it may not repeat more than all fields do.
``is_doubtful``
    Do other columns, such as tokens, repeat more than the shards? They may have lost a difference that the samples had, such
    as by cutting texts short. So this proves no loss, but keys and counts are no longer believed.
``proven``
    How many samples are certainly among the rows? Those whose fields came out unchanged; and those that differ in columns of
    which it is known that a sample always gives the same value (see ``copies_run``).
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .marks import ARRAY, BYTES, FLAT, KEY, NUMBER, OPAQUE, OTHER, PICTURE, SHORT, TEXT
from .rows import Row, identity
from .sample_contents import SampleContent

# Content that hardly two samples have by chance.
_RICH = (TEXT, BYTES, PICTURE)
# Content that says enough of a sample to be compared at all: single numbers are equal in many samples.
_COMPARED = (TEXT, BYTES, PICTURE, ARRAY, OTHER, SHORT)
_NOT_CONTENT = (KEY, OPAQUE)
# A column is a field of the shards if so many of its values are in that field.
_SAME_FIELD = 0.9
# A column with fewer different values is rather a label: that it repeats shows nothing.
_LEAST_DISTINCT = 0.25
_FEW_VALUES = 100


@dataclass(frozen=True, slots=True)
class InputSample:
    """A sample that entered, and how often."""

    content: SampleContent
    times: int = 1

    @property
    def whole(self) -> str:
        """A text that is equal for samples of equal content."""
        return " ".join(sorted(f"{name} {marks[0]}" for name, marks in self.content.items()))


@dataclass(frozen=True)
class OutputColumn:
    """One column of the output."""

    name: str
    # By their marks.
    values: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """How many rows have the column."""
        return self.values.total()

    def is_mostly(self, kinds: tuple[str, ...]) -> bool:
        """Whether most of its values are of some kinds."""
        matching = sum(count for mark, count in self.values.items() if mark.startswith(kinds))
        return 2 * matching > self.rows

    @property
    def is_picture(self) -> bool:
        """Whether its values are pictures, and not all a dummy."""
        is_dummy = len(self.values) == 1 and next(iter(self.values)).startswith(FLAT)
        return self.is_mostly((PICTURE,)) and not is_dummy

    @property
    def is_varied(self) -> bool:
        """Whether it has many different values, as no column of labels has."""
        return len(self.values) > 1 and len(self.values) >= _LEAST_DISTINCT * self.rows


@dataclass(frozen=True)
class OutputContent:
    """The rows of a run, and what they are compared with.

    Attributes:
        rows: of the samples that came out, as far as they were noted.
        samples: that entered; it is called when they are first needed, and may have to read the shards.
    """

    rows: Sequence[Row]
    samples: Callable[[], Sequence[InputSample]]

    @cached_property
    def _columns(self) -> list[OutputColumn]:
        columns: dict[str, OutputColumn] = {}
        for row in self.rows:
            for name, mark in row.items():
                # Such as __key__ and __url__: they name a sample, and are not its content.
                if name.startswith("__") or mark.startswith(_NOT_CONTENT):
                    continue
                columns.setdefault(name, OutputColumn(name)).values[mark] += 1
        return list(columns.values())

    @cached_property
    def _input(self) -> Sequence[InputSample]:
        return self.samples()

    @cached_property
    def _fields(self) -> dict[str, Counter[str]]:
        """How often each value of each field entered."""
        fields: dict[str, Counter[str]] = {}
        for sample in self._input:
            for name, marks in sample.content.items():
                counts = fields.setdefault(name, Counter())
                for mark in marks:
                    counts[mark] += sample.times
        return fields

    @cached_property
    def _partitions(self) -> list[Counter[str]]:
        """How often the values of each field entered, and whole samples, in one form only."""
        partitions: dict[str, Counter[str]] = {}
        for sample in self._input:
            for name, marks in sample.content.items():
                partitions.setdefault(name, Counter())[marks[0]] += sample.times
        return [*partitions.values(), self._whole_samples]

    @cached_property
    def _wholes(self) -> list[str]:
        """The contents of all samples."""
        return [sample.whole for sample in self._input]

    @cached_property
    def _whole_samples(self) -> Counter[str]:
        """How often each content entered."""
        counts: Counter[str] = Counter()
        for whole, sample in zip(self._wholes, self._input, strict=True):
            counts[whole] += sample.times
        return counts

    @cached_property
    def _passes(self) -> int:
        """How often the input was read at least, where code that does not show it gives more rows than samples entered."""
        entered = sum(sample.times for sample in self._input)
        return math.ceil(len(self.rows) / entered) if entered else 1

    @cached_property
    def _traced(self) -> dict[str, str]:
        """The field of which each column has the unchanged values; without the columns that are no field."""
        traced = {}
        for column in self._columns:
            if column.is_mostly((NUMBER,)):
                continue
            best, most, least_beyond = "", 0, 0
            few = list(itertools.islice(column.values, _FEW_VALUES))
            for name, counts in self._fields.items():
                # Most fields have none of the values: a few show it.
                if not any(mark in counts for mark in few):
                    continue
                matching = _matching(column.values, counts)
                beyond = _beyond(column.values, counts)
                # Of two fields with the same values, the one that explains more repeats.
                if (matching, -beyond) > (most, -least_beyond):
                    best, most, least_beyond = name, matching, beyond
            if most >= _SAME_FIELD * column.rows:
                traced[column.name] = best
        return traced

    @cached_property
    def replaced(self) -> int:
        """Rows that repeat the content of others more often than the input does."""
        # The shards are read only if anything repeats that could show a loss.
        compared = [column for column in self._columns if column.is_mostly(_COMPARED)]
        if all(len(column.values) == column.rows for column in compared):
            return 0
        return max(self._replaced_in_fields, self._replaced_in_pictures)

    @property
    def is_at_least(self) -> bool:
        """Whether more rows may be replaced: which fields pictures are made of is not known, and each may explain some."""
        return self.replaced > 0 and self._replaced_in_pictures > 0

    @cached_property
    def _replaced_in_fields(self) -> int:
        by_field: dict[str, int] = {}
        for column in self._columns:
            name = self._traced.get(column.name)
            if name is not None and (column.is_varied or column.is_mostly(_RICH)):
                # Of two columns of one field, such as a caption and that of another sample, one is what the sample gives.
                beyond = _beyond(column.values, self._fields[name])
                by_field[name] = min(beyond, by_field.get(name, beyond))
        return max(by_field.values(), default=0)

    @cached_property
    def _replaced_in_pictures(self) -> int:
        pictures = [column for column in self._columns if column.is_picture and column.name not in self._traced]
        if not pictures or not self._input:
            return 0
        varied = [column for column in pictures if column.is_varied]
        # Next to images, columns with few different values are such as masks.
        shown = varied or [max(pictures, key=lambda column: len(column.values))]
        return max(self._unexplained(column.values, pictures=True) for column in shown)

    def is_doubtful(self, tolerance: float) -> bool:
        """Return whether columns that prove no loss repeat more than the input does.

        ``tolerance``: the share of rows, 0 to 1, that may repeat.
        """
        compared = [column for column in self._columns if column.is_mostly(_COMPARED)]
        # Others, such as random crops, are different each time, and would hide what these show together.
        most_distinct = (1 - tolerance) * len(self.rows)
        repeating = [column for column in compared if len(column.values) < most_distinct]
        if not repeating:
            return False
        if not self._input:
            # Without the shards it is not known that captions repeat there: only what is equal as a whole counts.
            repeating = compared
        names = [column.name for column in repeating]
        together = OutputColumn("", Counter("|".join(identity(row, names)) for row in self.rows))
        if not together.is_varied:
            # They are labels, if anything else varies. Otherwise all output is the same few samples.
            only_these = len(repeating) == len(compared)
            if not only_these or not any(column.is_mostly(_RICH) for column in repeating):
                return False
        pictures = any(column.is_picture for column in repeating)
        unexplained = self._unexplained(together.values, pictures=pictures, passes=self._passes)
        return unexplained > tolerance * len(self.rows)

    def _unexplained(self, values: Counter[str], *, pictures: bool, passes: int = 1) -> int:
        """Return how many rows repeat beyond what any one field of the input explains.

        The values that a pipeline makes of a field are no more than that field has, and repeat as it does.

        Args:
            values: of one column, or of several together.
            pictures: whether they are pictures, which no label explains.
            passes: how often the input may have been read by code that does not show it.
        """
        counts = _sorted_counts(values)
        explained = sum(min(count, passes) for count in counts) if not self._input else 0
        for partition in self._partitions:
            if len(partition) < len(counts) or (pictures and not _may_show_pictures(partition)):
                continue
            both = zip(counts, _sorted_counts(partition), strict=False)
            explained = max(explained, sum(min(count, most * passes) for count, most in both))
        return sum(counts) - explained

    def proven(self, single_valued: Collection[str] = ()) -> int:
        """Return how many samples are certainly among the rows.

        ``single_valued``: columns of which each sample gives one value, whenever it is read.
        """
        return max(self._proven_by_values(single_valued), self._proven_by_fields())

    def _proven_by_fields(self) -> int:
        """Return how many samples are certainly among the rows, by columns that are fields of the shards, unchanged."""
        names = list(self._traced)
        holders = {name: self._holders(field) for name, field in self._traced.items()}
        rows_of: Counter[frozenset[int]] = Counter()
        for marks, rows in Counter(identity(row, names) for row in self.rows).items():
            having = [holders[name].get(mark, frozenset()) for name, mark in zip(names, marks, strict=True)]
            having = [numbers for numbers in having if numbers]
            if having and (candidates := frozenset.intersection(*having)):
                having = [candidates]
            # If no sample has all of the values, the row is made of several.
            for numbers in set(having):
                rows_of[numbers] += rows
        proven = 0
        counted = set[int]()
        # Several values may lead to one sample, such as two captions of it. So no sample is counted twice.
        for numbers, rows in sorted(rows_of.items(), key=lambda item: len(item[0])):
            if counted.isdisjoint(numbers):
                counted |= numbers
                proven += min(self._in_one_pass(rows), self._certain(numbers))
        return proven

    def _holders(self, field: str) -> dict[str, frozenset[int]]:
        """Return the numbers of the samples with each value of a field."""
        holders: dict[str, set[int]] = {}
        for number, sample in enumerate(self._input):
            for mark in sample.content.get(field, []):
                holders.setdefault(mark, set()).add(number)
        return {mark: frozenset(numbers) for mark, numbers in holders.items()}

    def _certain(self, candidates: Iterable[int]) -> int:
        """Return how many rows are certainly different samples, if each is one of the candidates.

        It may always be the same one, as often as its content entered; which of several equal ones does not matter.
        """
        contents: Counter[str] = Counter()
        for number in candidates:
            contents[self._wholes[number]] += self._input[number].times
        return max(contents.values())

    def _proven_by_values(self, single_valued: Collection[str]) -> int:
        names = [column.name for column in self._columns if column.name in single_valued]
        if not names:
            return 0
        rows = [row for row in self.rows if all(name in row for name in names)]
        values = Counter(identity(row, names) for row in rows)
        if not self._input:
            return len(values)
        # Equal samples give equal values: these may come as often as the input has equal samples.
        both = zip(_sorted_counts(values), _sorted_counts(self._whole_samples), strict=False)
        return sum(min(self._in_one_pass(count), most) for count, most in both)

    def _in_one_pass(self, count: int) -> int:
        """Return how many samples gave ``count`` equal rows, if each gave one in each pass: at least one sample did."""
        return max(1, count // self._passes)


def _sorted_counts(counts: Mapping[str, int] | Mapping[tuple[str, ...], int]) -> list[int]:
    return sorted(counts.values(), reverse=True)


def _may_show_pictures(partition: Counter[str]) -> bool:
    """Return whether pictures may be made of the values of a field: they are files, or at least no labels."""
    values = OutputColumn("", partition)
    return values.is_mostly((BYTES,)) or values.is_varied


def _matching(values: Mapping[str, int], field: Mapping[str, int]) -> int:
    return sum(count for mark, count in values.items() if mark in field)


def _beyond(values: Mapping[str, int], field: Mapping[str, int]) -> int:
    """Return how many values repeat beyond those of a field."""
    return sum(max(0, count - field[mark]) for mark, count in values.items() if mark in field)
