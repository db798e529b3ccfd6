"""The results of all outputs of a run, and how commands report them."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from wdsflow.text.secrets import redact
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .line import Line, OneFile
from .working_folder import remote_url

if TYPE_CHECKING:
    from typing_extensions import Self

L = TypeVar("L", bound=Line)


@dataclass(kw_only=True)
class OutputsReport(Generic[L]):
    """The results of all outputs of a run.

    Attributes:
        shards: the outputs, in order.
        resumed: outputs that an earlier run had finished.
        changed: outputs that were written again, and why.
        kept: shards that cannot be read now, and whose outputs of an earlier run were kept.
        stale_removed: temporary files of killed runs that were removed.
    """

    shards: list[L] = field(default_factory=list)
    resumed: int = 0
    changed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    stale_removed: int = 0

    @property
    def outcomes(self) -> Sequence[L]:
        """The outputs, in order."""
        return self.shards

    @property
    def missing_outputs(self) -> list[str]:
        """The names of outputs that do not exist, because nothing was left for them."""
        files = [line for line in self.outcomes if isinstance(line, OneFile)]
        return [line.name for line in files if line.name and line.output is None]

    def check(self) -> None:
        """Raise RuntimeError if the counts of an output do not add up."""
        for line in self.outcomes:
            line.check()

    def naming(self, out: str | os.PathLike[str], folder: Path) -> "Self":
        """Name the outputs by their url ``out`` instead of the working folder.

        Returns the report.
        """
        if remote_url(out) is None:
            return self
        url = redact(str(out).rstrip("/"))
        self.changed = [message.replace(str(folder), url) for message in self.changed]
        for line in self.outcomes:
            if isinstance(line, OneFile) and line.output:
                line.output = line.output.replace(str(folder), url)
        return self

    def total(self, name: str) -> int:
        """Sum a number over the outputs.

        Counts by reason, such as those of quarantined samples, are summed over all reasons.
        """
        total = 0
        for line in self.outcomes:
            value = getattr(line, name)
            total += sum(value.values()) if isinstance(value, Mapping) else int(value)
        return total

    def merged(self, name: str) -> Counter[str]:
        """Sum counts by reason over the outputs."""
        counts: Counter[str] = Counter()
        for line in self.outcomes:
            counts.update(getattr(line, name))
        # Without zeros.
        return +counts

    def lines(self) -> Iterable[str]:
        """Yield the report."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def again_lines(self, did: str, most: int | None = None) -> Iterator[str]:
        """Yield why outputs were written again, and which of an earlier run were kept."""
        for message in self.changed[:most]:
            yield f"{did} again: {escape(message, 600)}"
        for url in self.kept[:most]:
            yield f"kept from an earlier run: the output of {escape(url, 600)}, which cannot be read now"

    @property
    def done_before(self) -> str:
        """How many outputs an earlier run had finished, in brackets; "" for none."""
        if not self.resumed:
            return ""
        return f" ({how_many(self.resumed, 'shard')} done before)"
