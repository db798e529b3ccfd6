"""Chooses the repair after which most samples reach a batch.

Steps are tried, and kept only if they are needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wdsflow.repair.repair_plan import RepairPlan
from wdsflow.text.words import enumeration, how_many

from ..verdicts.judge import judge
from ..verdicts.verdict import Verdict
from ..verdicts.wording import short_title
from .plan_steps import SUGGESTIONS, guess_encoding, without_one_step
from .repair_forecast import RepairForecast


@dataclass(frozen=True)
class PlannedRepair:
    """A repair, and what it does for the readers.

    Attributes:
        plan: its steps.
        after: the verdicts on its output.
        is_known: whether the outputs of all shards could be predicted.
    """

    plan: RepairPlan
    after: tuple[Verdict, ...]
    is_known: bool


def choose_repair(forecast: RepairForecast) -> PlannedRepair:
    """Return the repair that loses nothing and brings most samples back."""
    plan = _best_plan(forecast.draft())
    if plan.steps() and _fails_on_all_shards(forecast, plan):
        plan = _best_plan(forecast)
    if plan.encoding:
        guess = guess_encoding(forecast, plan)
        plan = replace(plan, guessed_from=0 if guess.is_certain else guess.captions)
    return planned_repair(forecast, plan)


def choose_loss(forecast: RepairForecast, lossless: RepairPlan) -> PlannedRepair | None:
    """Return the repair that leaves out samples as well, None if no reader gains by that."""
    plan = replace(lossless, drop_bad=True)
    before = forecast.verdicts(lossless)
    after = forecast.verdicts(plan)
    if is_worse(after, before) or not is_better(after, before):
        return None
    return planned_repair(forecast, plan)


def planned_repair(forecast: RepairForecast, plan: RepairPlan) -> PlannedRepair:
    """Return a plan with its effects.

    The expected samples are None unless all shards could be predicted.
    """
    repaired = forecast.repaired(plan)
    expected = repaired.samples if repaired.is_known else None
    return PlannedRepair(
        replace(plan, expected_samples=expected), forecast.verdicts(plan), repaired.is_known
    )


def is_worse(after: Sequence[Verdict], before: Sequence[Verdict]) -> bool:
    """Return whether a reader gets fewer samples, or newly ends with an exception.

    An exception counts only if the reader got samples to the end before.

    How many samples come before an exception depends on the order of the shards, so they are not
    compared.
    """
    for then, now in zip(after, before, strict=True):
        if then.outcome == "crashes":
            if now.outcome != "crashes" and now.usable:
                return True
        elif then.usable < now.usable:
            return True
    return False


def is_better(after: Sequence[Verdict], before: Sequence[Verdict]) -> bool:
    """Return whether a reader gets more samples, or gets to the end of the shards and did not."""
    for then, now in zip(after, before, strict=True):
        if then.outcome == "crashes" or not then.usable:
            continue
        if now.outcome == "crashes" or then.usable > now.usable:
            return True
    return False


def cost_text(before: Sequence[Verdict], after: Sequence[Verdict]) -> str:
    """Return which readers get fewer samples after a repair, and how many; "" if none does."""
    costs: list[str] = []
    for now, then in zip(before, after, strict=True):
        if not is_worse([then], [now]):
            continue
        title = short_title(then.title)
        if then.outcome == "crashes":
            costs.append(
                f"{title} then ends with an exception (now {how_many(now.usable, 'sample')})"
            )
        else:
            costs.append(
                f"{title} then gets {how_many(then.usable, 'sample')} (now {now.usable:,})"
            )
    return enumeration(costs)


def _fails_on_all_shards(forecast: RepairForecast, plan: RepairPlan) -> bool:
    """Return whether a plan for a draft is wrong for all shards.

    A draft does not see which images fail to decode, which ends some readers, and not the captions
    of all shards.
    """
    if plan.encoding and guess_encoding(forecast, plan).encoding != plan.encoding:
        return True
    after = forecast.verdicts(plan)
    if is_worse(after, [judge(forecast.evidence, reader) for reader in forecast.readers]):
        return True
    # What a repair without steps brings may take another pass over shards: only an exception ends
    # more than a sample.
    ends = any(verdict.outcome == "crashes" for verdict in after)
    return ends and is_worse(after, forecast.verdicts(RepairPlan()))


def _best_plan(forecast: RepairForecast) -> RepairPlan:
    plan = RepairPlan()
    for suggest in SUGGESTIONS:
        has_all = all(verdict.usable == verdict.samples for verdict in forecast.verdicts(plan))
        if has_all and not forecast.empty_captions(plan):
            break
        for attempt in suggest(forecast, plan):
            if not _is_worse_plan(forecast, attempt, plan):
                plan = attempt
                break
    return _without_idle_steps(forecast, plan)


def _is_worse_plan(forecast: RepairForecast, one: RepairPlan, other: RepairPlan) -> bool:
    """Return whether a plan is worse: readers get fewer samples, or more empty captions.

    Empty captions decide only between plans that bring the same samples.

    If a reader ends with an exception in any case, what it could get at most is compared.
    """
    after = forecast.verdicts(one)
    before = forecast.verdicts(other)
    if is_worse(after, before):
        return True
    if is_better(after, before):
        return False
    if forecast.empty_captions(one) > forecast.empty_captions(other):
        return True
    # Readers that crash by both plans.
    crashing = []
    for index, verdict in enumerate(after):
        if verdict.outcome == "crashes" and before[index].outcome == "crashes":
            crashing.append(index)
    if not crashing:
        return False
    most_after = forecast.verdicts(replace(one, drop_bad=True))
    most_before = forecast.verdicts(replace(other, drop_bad=True))
    return any(most_after[index].usable < most_before[index].usable for index in crashing)


def _without_idle_steps(forecast: RepairForecast, plan: RepairPlan) -> RepairPlan:
    """Return the plan without the steps that bring nothing."""
    for less in without_one_step(plan):
        if not _is_worse_plan(forecast, less, plan):
            return _without_idle_steps(forecast, less)
    return plan
