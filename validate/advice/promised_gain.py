"""Advice with the number of samples that it promises."""

from ..finding import Advice
from ..verdicts.verdict import Verdict
from ..verdicts.wording import short_title


def advice_with_gain(
    verdict: Verdict, action: str, usable: int, *, samples: int | None = None, exact: bool
) -> Advice:
    """Return advice for the reader of a verdict.

    Args:
        verdict: the verdict on the shards as they are.
        action: the change, in one line.
        usable: samples that reach a batch after the change.
        samples: all samples after the change, if that is another number.
        exact: the contents of all fields were read after the change; otherwise the number is a
            bound.
    """
    return Advice(
        regains=usable - verdict.usable,
        action=action,
        reader=verdict.reader,
        title=short_title(verdict.title),
        usable=usable,
        now=verdict.usable,
        samples=verdict.samples if samples is None else samples,
        exact=verdict.exact and exact,
    )
