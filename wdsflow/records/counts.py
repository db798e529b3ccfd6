"""Counts that add up, and how they are printed."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from wdsflow.text.escape import escape

Key = TypeVar("Key", str, tuple[str, str])


class Counts(NamedTuple):
    """What became of samples, members or rows. ``came + made == out + sum(left_out)``."""

    what: str  # "samples"
    came: int
    out: int
    left_out: Mapping[str, int]  # by reason
    made: int | None = None  # new ones; None: this cannot happen

    @property
    def gone(self) -> int:
        """How many were left out."""
        return sum(self.left_out.values())

    def check(self, about: str) -> None:
        """Raise RuntimeError if one is unaccounted for."""
        if self.came + (self.made or 0) != self.out + self.gone:
            raise RuntimeError(f"{self.what} do not add up: {self.line()}: {about}")

    def line(self, out: str = "out", left_out: str = "left out") -> str:
        """Return the sum as a line.

        >>> Counts("samples", 15, 12, {"no image": 3}).line()
        'samples: 15 in = 12 out + 3 left out'
        """
        return f"{self.what}: {self.sum(out=out, left_out=left_out)}"

    def sum(self, noun: str = "", out: str = "out", left_out: str = "left out") -> str:
        """Return the sum alone.

        >>> Counts("samples", 15, 12, {"no image": 3}).sum(" samples", "indexed")
        '15 samples in = 12 indexed + 3 left out'
        """
        made = "" if self.made is None else f" + {self.made:,} made"
        return f"{self.came:,}{noun} in{made} = {self.out:,} {out} + {self.gone:,} {left_out}"

    def parts_line(self, out: str, always: int = 0) -> str:
        """Return the sum as a line with all reasons, of which only the first ``always`` are shown if they are 0.

        >>> Counts("rows", 3, 2, {"unmatched": 1, "ambiguous": 0}).parts_line("used", always=1)
        'rows: 2 used + 1 unmatched = 3'
        """
        reasons = [
            f"{count:,} {name}" for at, (name, count) in enumerate(self.left_out.items()) if count or at < always
        ]
        return f"{self.what}: {' + '.join([f'{self.out:,} {out}', *reasons])} = {self.came:,}"


def by_count(counts: Mapping[Key, int]) -> list[tuple[Key, int]]:
    """Return the entries, the most frequent first."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def reason_lines(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each reason, the most frequent first."""
    for reason, count in by_count(counts):
        yield f"  {title}: {count:,} x {escape(reason)}"
