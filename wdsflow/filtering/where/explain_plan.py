"""A plan as a table: the order of terms, their costs, and how many samples reach them."""

from typing import TYPE_CHECKING

from wdsflow.filtering.where.language.values import Call
from wdsflow.text.escape import escape

from .predicate_planner import Pilot, Plan

if TYPE_CHECKING:
    from .predicate import Term

_WIDEST = 60  # characters of a term


def explain(plan: Plan, pilot: Pilot | None = None) -> str:
    """Return the plan as a table: one line per term, in order, and the average cost of a sample.

    "new scores" are those that no term above uses. "reached by" is the share of samples that no term above drops.
    Without a pilot the table has no shares, and rough costs of the tiers.
    """
    tiers = dict(plan.where.tiers)
    rows = [("", "term", "new scores", "tier", "a sample", *(("passed by", "reached by") if pilot else ()))]
    average = 0.0
    above: list[Term] = []
    for number, step in enumerate(plan.steps, 1):
        reached = pilot.reaching(above) if pilot else 1.0
        average += step.cost * reached
        above.append(step.term)
        names = ", ".join(map(str, step.calls)) or "-"
        dearest = _dearest(step.calls, tiers)
        shares = (_share(pilot.reaching((step.term,))), _share(reached)) if pilot else ()
        rows.append(
            (str(number), _cut(str(step.term)), _cut(names), dearest, _time(step.cost) if step.calls else "-", *shares)
        )
    everything = sum(step.cost for step in plan.steps)
    if pilot:
        last = (
            f"measured on {pilot.samples:,} samples; on average {_time(average)} per sample,"
            f" with every score for every sample {_time(everything)}; {_share(pilot.reaching(above))} pass all terms"
        )
    else:
        last = f"not measured: rough costs by tier; with every score {_time(everything)} per sample"
    return "\n".join([*_table(rows), last])


def _dearest(calls: tuple[Call, ...], tiers: dict[Call, str]) -> str:
    order = ("header", "text", "pixels", "model")
    found = {tiers[call] for call in calls}
    return max(found, key=lambda tier: order.index(tier) if tier in order else len(order), default="-")


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = {0, 4, 5, 6}
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _cut(text: str) -> str:
    return escape(text, limit=_WIDEST)


def _share(share: float) -> str:
    return f"{share:.1%}"


def _time(seconds: float) -> str:
    """Return a time with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
