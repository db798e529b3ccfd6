"""What rules on interleaved samples share."""

from typing import ClassVar

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ...finding import Severity
from .base import TallyRule, first_seen


class InterleavedRule(TallyRule):
    """A rule that compares the images of a sample with its json. It says nothing where samples are split.

    ``about_one``, ``about_several``: what is wrong, after the number of samples.
    """

    severity: ClassVar[Severity] = "warning"
    requires: ClassVar[tuple[str, ...]] = ("W001", "W002", "W006", "W010", "W012", "W022", "W029", "W030")
    about_one: ClassVar[str]
    about_several: ClassVar[str]

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        """Return the number of samples, what is wrong, and the first of them."""
        what = self.about_one if count == 1 else self.about_several
        return f"{how_many(count, 'sample')} {what}{first_seen(detail)}"
