"""What the content of a pipeline's output proves.

It proves how many samples are certainly in the output, and how many rows only stand in for others.

The output is a list of rows, one for each sample that came out, with a mark for each of its
columns. The input is a list of samples, with marks of their fields. Three questions are answered.

``replaced``
    How many rows are repeats that the input does not have? Each stands in the place of a sample
    that did not come out. A column that is a field of the shards, unchanged, may show each value as
    often as the shards have it. A column of pictures that were decoded or resized has other marks
    than the shards, but it may not repeat more than all fields do.
``is_doubtful``
    Do other columns, such as tokens, repeat more than the shards? They may have lost a difference
    that the samples had, such as by cutting texts short. So this proves no loss, but keys and
    counts are no longer believed.
``proven_samples``
    How many samples are certainly among the rows? Those whose fields came out unchanged; and those
    that differ in columns of which it is known that a sample always gives the same value (see
    ``copies_run``).
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..values.marks import ARRAY, BYTES, KEY, NUMBER, OPAQUE, OTHER, PICTURE, SHORT, TEXT
from ..values.rows import Row, identity
from .input_content import InputContent, InputSample
from .output_column import OutputColumn, sorted_counts

# Content that hardly two samples have by chance.
_RICH = (TEXT, BYTES, PICTURE)
# Content that shows enough of a sample to be compared at
# all: single numbers are equal in many samples.
_COMPARED = (TEXT, BYTES, PICTURE, ARRAY, OTHER, SHORT)
_NOT_CONTENT = (KEY, OPAQUE)
# A column is a field of the shards if so many of its values are in that field.
_SAME_FIELD = 0.9
# Values that show that a field has none of those of a column.
_FEW_VALUES = 100


@dataclass(frozen=True)
class OutputContent:
    """The rows of a run, and what they are compared with.

    Attributes:
        rows: of the samples that came out, as far as they were listed.
        samples: that entered; it is called when they are first needed, and may have to read the
            shards.
    """

    rows: Sequence[Row]
    samples: Callable[[], Sequence[InputSample]]

    @cached_property
    def replaced(self) -> int:
        """Rows that repeat the content of others more often than the input does."""
        # The shards are read only if anything repeats that could show a loss.
        if all(len(column.values) == column.rows for column in self._compared_columns):
            return 0
        return max(self._replaced_in_fields, self._replaced_in_pictures)

    @property
    def replaced_is_minimum(self) -> bool:
        """Whether more rows than counted may be replaced.

        It is not known which fields pictures are made of, and each field may explain some repeats.
        """
        return self.replaced > 0 and self._replaced_in_pictures > 0

    def is_doubtful(self, tolerance: float) -> bool:
        """Return whether columns that prove no loss repeat more than the input does.

        ``tolerance``: the share of rows, 0 to 1, that may repeat.
        """
        compared = self._compared_columns
        # Others, such as random crops, are different each
        # time, and would hide what these show together.
        most_distinct = (1 - tolerance) * len(self.rows)
        repeating = [column for column in compared if len(column.values) < most_distinct]
        if not repeating:
            return False
        if not self._input.samples:
            # Without the shards it is not known that captions
            # repeat there: only what is equal as a whole counts.
            repeating = compared
        names = [column.name for column in repeating]
        together = OutputColumn("", Counter("|".join(identity(row, names)) for row in self.rows))
        if not together.is_varied:
            # They are labels, if anything else varies.
            # Otherwise all output is the same few samples.
            only_these = len(repeating) == len(compared)
            if not only_these or not any(column.is_mostly(_RICH) for column in repeating):
                return False
        pictures = any(column.is_picture for column in repeating)
        unexplained = self._unexplained(together.values, pictures=pictures, passes=self._passes)
        return unexplained > tolerance * len(self.rows)

    def proven_samples(self, single_valued: Collection[str] = ()) -> int:
        """Return how many samples are certainly among the rows.

        ``single_valued``: columns of which each sample gives one value, whenever it is read.
        """
        return max(self._proven_by_values(single_valued), self._proven_by_fields())

    # The rows and the input.

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
    def _compared_columns(self) -> list[OutputColumn]:
        return [column for column in self._columns if column.is_mostly(_COMPARED)]

    @cached_property
    def _input(self) -> InputContent:
        return InputContent(self.samples())

    @cached_property
    def _passes(self) -> int:
        """How often the input was read at least.

        This matters if the code does not show it, and yields more rows than samples entered.
        """
        entered = self._input.entered
        return math.ceil(len(self.rows) / entered) if entered else 1

    @cached_property
    def _field_of(self) -> dict[str, str]:
        """The field whose values each column has, unchanged.

        Columns that are not a field are left out.
        """
        field_of = {}
        for column in self._columns:
            if column.is_mostly((NUMBER,)):
                continue
            field = self._best_field(column)
            if field is not None:
                field_of[column.name] = field
        return field_of

    def _best_field(self, column: OutputColumn) -> str | None:
        """Return the field that has most values of a column.

        Returns None if no field has nearly all of them.
        """
        best = ""
        most_rows = 0
        fewest_beyond = 0
        # Most fields have none of the values: a few show it.
        few_values = list(itertools.islice(column.values, _FEW_VALUES))
        for name, counts in self._input.fields.items():
            if not any(mark in counts for mark in few_values):
                continue
            rows = column.rows_in(counts)
            beyond = column.rows_beyond(counts)
            # Of two fields with the same values, the one that explains more repeats.
            if rows > most_rows or (rows == most_rows and beyond < fewest_beyond):
                best = name
                most_rows = rows
                fewest_beyond = beyond
        return best if most_rows >= _SAME_FIELD * column.rows else None

    # Rows that stand in for others.

    @cached_property
    def _replaced_in_fields(self) -> int:
        by_field: dict[str, int] = {}
        for column in self._columns:
            field = self._field_of.get(column.name)
            if field is None or not (column.is_varied or column.is_mostly(_RICH)):
                continue
            # Of two columns of one field, such as a caption and that of another sample, one is what
            # the sample gives.
            beyond = column.rows_beyond(self._input.fields[field])
            by_field[field] = min(beyond, by_field.get(field, beyond))
        return max(by_field.values(), default=0)

    @cached_property
    def _replaced_in_pictures(self) -> int:
        pictures = [
            column
            for column in self._columns
            if column.is_picture and column.name not in self._field_of
        ]
        if not pictures or not self._input.samples:
            return 0
        # Next to images, columns with few different values are such as masks.
        images = [column for column in pictures if column.is_varied]
        if not images:
            images = [max(pictures, key=lambda column: len(column.values))]
        return max(self._unexplained(column.values, pictures=True) for column in images)

    def _unexplained(self, values: Counter[str], *, pictures: bool, passes: int = 1) -> int:
        """Return how many rows repeat beyond what any one field of the input explains.

        The values that a pipeline makes of a field are no more than that field has, and repeat as
        it does.

        Args:
            values: of one column, or of several together.
            pictures: whether they are pictures, which no label explains.
            passes: how often the input may have been read by code that does not show it.
        """
        counts = sorted_counts(values)
        explained = 0
        if not self._input.samples:
            explained = sum(min(count, passes) for count in counts)
        for partition in self._input.partitions:
            if len(partition) < len(counts) or (pictures and not _may_show_pictures(partition)):
                continue
            explained_by_field = 0
            # There are more values of the field than of the column.
            for count, most in zip(counts, sorted_counts(partition), strict=False):
                explained_by_field += min(count, most * passes)
            explained = max(explained, explained_by_field)
        return sum(counts) - explained

    # Samples that are certainly among the rows.

    def _proven_by_fields(self) -> int:
        """Return how many samples are certainly among the rows, proven by fields.

        It uses the columns that are unchanged fields of the shards.
        """
        proven = 0
        counted = set[int]()
        candidates = self._rows_of_candidates()
        # Several values may lead to one sample, such as two
        # captions of it. So no sample is counted twice.
        for numbers, rows in sorted(candidates.items(), key=lambda item: len(item[0])):
            if counted.isdisjoint(numbers):
                counted |= numbers
                proven += min(self._in_one_pass(rows), self._certain(numbers))
        return proven

    def _rows_of_candidates(self) -> Counter[frozenset[int]]:
        """Return how many rows may be of which samples, by the values of their columns."""
        names = list(self._field_of)
        holders = {name: self._input.holders(field) for name, field in self._field_of.items()}
        candidates: Counter[frozenset[int]] = Counter()
        for marks, rows in Counter(identity(row, names) for row in self.rows).items():
            by_column = []
            for name, mark in zip(names, marks, strict=True):
                numbers = holders[name].get(mark)
                if numbers:
                    by_column.append(numbers)
            if not by_column:
                continue
            with_all_values = frozenset.intersection(*by_column)
            if with_all_values:
                candidates[with_all_values] += rows
                continue
            # No sample has all of the values: the row is made of several.
            for numbers in set(by_column):
                candidates[numbers] += rows
        return candidates

    def _certain(self, candidates: Iterable[int]) -> int:
        """Return how many rows are certainly different samples, if each is one of the candidates.

        It may always be the same one, as often as its content entered; which of several equal ones
        does not matter.
        """
        contents: Counter[str] = Counter()
        for number in candidates:
            contents[self._input.whole_contents[number]] += self._input.samples[number].times
        return max(contents.values())

    def _proven_by_values(self, single_valued: Collection[str]) -> int:
        """Return how many samples are certainly among the rows, proven by values.

        It uses the columns of which each sample yields one value.
        """
        names = [column.name for column in self._columns if column.name in single_valued]
        if not names:
            return 0
        rows = [row for row in self.rows if all(name in row for name in names)]
        values = Counter(identity(row, names) for row in rows)
        if not self._input.samples:
            return len(values)
        proven = 0
        # Equal samples give equal values: these may come as often as the input has equal samples.
        for count, most in zip(
            sorted_counts(values), sorted_counts(self._input.whole_counts), strict=False
        ):
            proven += min(self._in_one_pass(count), most)
        return proven

    def _in_one_pass(self, count: int) -> int:
        """Return how many samples yielded ``count`` equal rows; at least 1.

        Each sample is assumed to yield one row in each pass.
        """
        return max(1, count // self._passes)


def _may_show_pictures(partition: Counter[str]) -> bool:
    """Return whether the values of a field may be the source of pictures.

    They are files, or at least not labels.
    """
    values = OutputColumn("", partition)
    return values.is_mostly((BYTES,)) or values.is_varied
