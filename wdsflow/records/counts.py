"""Counts that add up: what came in is what came out, and what was left out for a reason."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from wdsflow.text.shell import escape

Key = TypeVar("Key", str, tuple[str, str])


class Counts(NamedTuple):
    """Counts of samples, members or rows: ``inputs + created == outputs + sum(left_out)``.

    Attributes:
        noun: what is counted, such as "samples".
        left_out: by reason.
        created: new ones; None if the command never creates any.
    """

    noun: str
    inputs: int
    outputs: int
    left_out: Mapping[str, int]
    created: int | None = None

    @property
    def total_left_out(self) -> int:
        """How many were left out, for any reason."""
        return sum(self.left_out.values())

    def check(self, line: object) -> None:
        """Raise RuntimeError if the counts do not add up, or one is negative.

        ``line``: for the message.
        """
        created = self.created or 0
        counts = (self.inputs, self.outputs, created, *self.left_out.values())
        is_balanced = self.inputs + created == self.outputs + self.total_left_out
        if not is_balanced or min(counts) < 0:
            raise RuntimeError(f"{self.noun} do not add up: {self.line()}: {line}")

    def line(self, out: str = "out", left_out: str = "left out") -> str:
        """Return the sum as a line.

        >>> Counts("samples", 15, 12, {"no image": 3}).line()
        'samples: 15 in = 12 out + 3 left out'
        """
        return f"{self.noun}: {self.sum(out=out, left_out=left_out)}"

    def sum(self, noun: str = "", out: str = "out", left_out: str = "left out") -> str:
        """Return the sum alone.

        >>> Counts("samples", 15, 12, {"no image": 3}).sum(" samples", "indexed")
        '15 samples in = 12 indexed + 3 left out'
        """
        came_in = f"{self.inputs:,}{noun} in"
        if self.created is not None:
            came_in += f" + {self.created:,} made"
        return f"{came_in} = {self.outputs:,} {out} + {self.total_left_out:,} {left_out}"

    def parts_line(self, out: str, always: int = 0) -> str:
        """Return the sum as a line with all reasons.

        Reasons with a count of 0 are shown only if they are among the first ``always``.

        >>> Counts("rows", 3, 2, {"unmatched": 1, "ambiguous": 0}).parts_line("used", always=1)
        'rows: 2 used + 1 unmatched = 3'
        """
        parts = [f"{self.outputs:,} {out}"]
        for position, (reason, count) in enumerate(self.left_out.items()):
            if count or position < always:
                parts.append(f"{count:,} {reason}")
        return f"{self.noun}: {' + '.join(parts)} = {self.inputs:,}"


def by_count(counts: Mapping[Key, int]) -> list[tuple[Key, int]]:
    """Return the entries, the most frequent first."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def reason_lines(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each reason, the most frequent first."""
    for reason, count in by_count(counts):
        yield f"  {title}: {count:,} x {escape(reason)}"
