"""The outcome of a join: which samples have a row, and which rows a sample."""

from dataclasses import dataclass, field
from typing import NamedTuple

# In place of a row: none has the value, no value to join
# on, a sample next to damage, see Ambiguous.
ABSENT, WITHOUT, DAMAGED, AMBIGUOUS = -1, -2, -3, -4
# Endings of the files of a shard: the row of each sample, 8 bytes each, and the values of those
# that have one, in Parquet.
ROWS, VALUES = ".rows", ".values"


@dataclass
class Matches:
    """Outcomes of samples and rows of a join.

    ``rows == used + unmatched_rows + ambiguous_rows + rows_without``.

    Attributes:
        matched: samples that have one row, or to which ``ambiguous`` gives one.
        by_rows: samples whose value is in several rows.
        by_samples: samples that share their value with other samples, and one row.
        examples: values of such rows.
        digests: by shard, a hash of the rows that its samples get; "" if it could not be read.
    """

    rows: int = 0
    rows_without: int = 0
    used: int = 0
    unmatched_rows: int = 0
    ambiguous_rows: int = 0
    matched: int = 0
    by_rows: int = 0
    by_samples: int = 0
    examples: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)


class Contradiction(NamedTuple):
    """Samples that contradict their rows.

    How many of those compared do, and for the first ones the key and the values in table and shard.
    """

    column: str
    samples: int
    compared: int
    evidence: list[tuple[str, str, str]]
