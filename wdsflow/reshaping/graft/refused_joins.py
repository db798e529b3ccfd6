"""Joins that are refused before anything is written, with what was found."""

from collections.abc import Sequence

from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, listed

from .join_on import JoinOn
from .join_samples import Contradiction, Matches, SampleJoin

_SHOWN = 3


class AmbiguousJoin(ValueError):
    """Samples that have several rows, or share a row."""

    @staticmethod
    def check(matches: Matches, on: str) -> None:
        """Raise it if there are any."""
        if not matches.by_rows + matches.by_samples:
            return
        parts = []
        if matches.by_rows:
            parts.append(f"{how_many(matches.by_rows, 'sample')} with several rows of the table each")
        if matches.by_samples:
            parts.append(f"{how_many(matches.by_samples, 'sample')} with the row of another sample")
        such = ", ".join(escape(each, 80) for each in matches.examples)
        raise AmbiguousJoin(f"{on} does not identify samples: {listed(parts)}, such as {such}")


class ContradictedJoin(ValueError):
    """Samples that have the key of a row, and another url or sha256. ``column``: by which they can be joined instead."""

    def __init__(self, text: str, column: str, evidence: list[str]) -> None:
        super().__init__(text)
        self.column, self.evidence = column, evidence

    @staticmethod
    def check(found: Contradiction | None) -> None:
        """Raise it if there are any."""
        if found is None:
            return
        evidence = [
            f"{escape(key, 60)}: the table has {escape(there, 200)}, the shard {escape(here, 200)}"
            for key, there, here in found.evidence
        ]
        raise ContradictedJoin(
            f"the keys are not those of the table: {found.samples:,} of {found.compared:,} compared samples have another "
            f"{found.column}; img2dataset gives samples new numbers in each download",
            found.column,
            evidence,
        )


class NoMatch(ValueError):
    """No sample has a row. ``advice``: what is on both sides."""

    def __init__(self, text: str, advice: list[str]) -> None:
        super().__init__(text)
        self.advice = advice

    @staticmethod
    def of(samples: int, join: SampleJoin, matches: Matches, on: JoinOn, named: str) -> None:
        """Raise it, with examples of both sides."""
        if not join.rows or not samples:
            what = f"{named} has no rows" if not join.rows else "the shards have no samples"
            raise NoMatch(what, [])
        if matches.by_rows + matches.by_samples:
            raise NoMatch("all samples that have a row are ambiguous", [])
        here, there = join.values_of_samples(_SHOWN), join.values_of_rows()[:_SHOWN]
        advice = [
            f"the samples have {_such(here)}" if here else f"no sample has {on.kind} {on.name}".rstrip(),
            f"the table has {_such(there)} in column {on.column}" if there else f"column {on.column} has no values",
        ]
        raise NoMatch(f"none of {how_many(samples, 'sample')} has a row in {named}", advice)


def _such(values: Sequence[str]) -> str:
    return ", ".join(escape(each, 100) for each in values)
