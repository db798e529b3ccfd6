"""Turns the planned repair into advice.

One command, for all readers, loses nothing. Others are advised if they help more, with their price.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wdsflow.readers import READERS, resolve
from wdsflow.readers.installed_versions import versions
from wdsflow.repair.repair_plan import RepairPlan
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.text.shell import escape
from wdsflow.text.words import enumeration

from ..finding import Advice
from ..rules.kit.base import Context
from ..rules.kit.shape_edits import is_known
from ..verdicts.judge import judge
from ..verdicts.verdict import Verdict
from ..verdicts.wording import short_title
from .promised_gain import advice_with_gain
from .repair_choice import PlannedRepair, choose_loss, choose_repair, cost_text, is_better, is_worse
from .repair_forecast import RepairForecast

# What a repair did to the structure in its preview, by the words of its report.
_FIXES = {
    "samples whose members were separated": "regroup the members of each sample",
    "members taken from the next shard": "join samples that are split at the border of two shards",
    "samples with the key of another one kept apart": "keep samples apart that share a key",
    "samples put first, as all others have their fields": "begin with a sample whose fields all others have",
    "folders joined": "join the folders of images and captions",
    "dots removed from keys": "replace the dots in keys",
    "fields in lower case": "write field names in lower case",
    "paths made relative": "make paths relative",
    "./ removed": "remove ./ from names",
    "unsafe characters replaced": "replace unsafe characters in names",
    "keys numbered to be unique": "number keys that are not unique",
    "links replaced by their targets": "replace links by their targets",
}
# What a repair changes in the structure, by the tallies of the unrepaired shards.
_STRUCTURE = {
    ("name.appledouble", "name.macosx", "name.hidden"): "leave out macOS twins and dot-files",
    (
        "tar.truncated-data",
        "tar.truncated-header",
        "tar.bad-header",
    ): "recover the members after damage",
    ("tar.second-archive",): "join archives that were written one after the other",
    ("tar.no-end-blocks", "tar.no-padding"): "write the end mark",
}
# What has to be done at the source, by the reason for which a reader leaves samples out.
_AT_THE_SOURCE = {
    "no-caption": "write captions for them, or join them from a table: wdsflow graft --help",
    "no-label": "write labels for them, or join them from a table: wdsflow graft --help",
    "no-image": "pack them again with their images",
    "no-image-or-caption": "pack them again with image and caption",
    "no-image-or-label": "pack them again with image and label",
    "bad-image": "fetch these images again",
    "too-large": "pack smaller images",
    "unreadable-shard": "fetch these shards again",
    "truncated-shard": "fetch these shards again",
    "unreached": "fetch these shards again",
}


@dataclass(frozen=True)
class RepairAdvice:
    """What a repair could do for some readers.

    Attributes:
        advice: the planned repair, if a reader gains by it; then those that gain more, at a price.
        after: the shards as the planned repair would write them; as they are if it is not advised.
    """

    advice: list[Advice]
    after: list[ShardEvidence]


def advise_repair(context: Context, forecast: RepairForecast) -> RepairAdvice:
    """Return the planned repair for each reader that gains by it.

    Repairs that help more at a price come as well.

    The price is samples that are left out, or another reader that gets fewer.
    """
    before = [judge(context.evidence, reader) for reader in forecast.readers]
    best = list(before)
    after = context.evidence.shards
    advice: list[Advice] = []
    lossless = choose_repair(forecast)
    if not is_worse(lossless.after, before):
        planned = list(_advice(context, forecast, before, lossless))
        if planned:
            after = forecast.repaired(lossless.plan).shards
        advice += planned
        best = list(lossless.after)
    losing = choose_loss(forecast, lossless.plan)
    if losing is not None and _is_gain(losing.after, before):
        advice += _advice(context, forecast, before, losing)
        best = list(losing.after)
    advice += _for_some_readers(context, forecast, before, best)
    return RepairAdvice(advice, after)


def _is_gain(after: Sequence[Verdict], before: Sequence[Verdict]) -> bool:
    """Return whether a reader gets more samples, and none gets fewer."""
    return is_better(after, before) and not is_worse(after, before)


def _for_some_readers(
    context: Context, forecast: RepairForecast, before: Sequence[Verdict], best: Sequence[Verdict]
) -> Iterator[Advice]:
    """Yield repairs that bring single readers more samples than the advice for all.

    Each states its price for the other readers.

    Args:
        context: the verdicts that the report shows.
        forecast: for all readers.
        before: their verdicts on the shards as they are.
        best: those on the shards after the repair that is advised for all.
    """
    if len(forecast.readers) == 1:
        return
    by_plan: dict[RepairPlan, list[Advice]] = {}
    for index, verdict in enumerate(best):
        if verdict.usable == verdict.samples and verdict.outcome != "crashes":
            continue
        alone = forecast.alone(forecast.readers[index])
        repair = _better_repair(alone, verdict)
        if repair is None:
            continue
        of_reader = replace(context, verdicts=[context.verdicts[index]])
        advice_of_reader = _advice(of_reader, alone, [before[index]], repair)
        by_plan.setdefault(repair.plan, []).extend(advice_of_reader)
    for plan, advice_of_plan in by_plan.items():
        titles = list(dict.fromkeys(advice.title for advice in advice_of_plan))
        remarks = [f"for {enumeration(titles)} alone"]
        price = cost_text(before, forecast.verdicts(plan))
        if price:
            remarks.append(f"although {price}")
        for advice in advice_of_plan:
            action = ", ".join([advice.action, *remarks])
            # Without options, the repair that is planned for OpenCLIP would be made.
            yield replace(advice, action=action, options=plan.options(), safe=False)


def _better_repair(forecast: RepairForecast, best: Verdict) -> PlannedRepair | None:
    """Return a repair that brings the only reader more samples than ``best``.

    ``forecast`` is for one reader. Returns None if no repair is better.
    """
    lossless = choose_repair(forecast)
    if is_better(lossless.after, [best]):
        return lossless
    losing = choose_loss(forecast, lossless.plan)
    if losing is not None and is_better(losing.after, [best]):
        return losing
    return None


def _advice(
    context: Context, forecast: RepairForecast, before: Sequence[Verdict], repair: PlannedRepair
) -> Iterator[Advice]:
    """Yield a repair for each reader that gains by it.

    ``before``: the verdicts on the shards as they are.
    """
    plan = repair.plan
    action = _description(forecast, plan)
    options = _options(forecast, plan)
    exact = is_known(forecast.repaired(plan).shards)
    fills_captions = forecast.empty_captions(plan) < forecast.empty_captions()
    # The last verdict may be that of the user's own pipeline, which no repair is judged for.
    for index, verdict in enumerate(context.verdicts[: len(before)]):
        then = repair.after[index]
        if then.outcome == "crashes":
            continue
        if not is_better([then], [before[index]]):
            if fills_captions and verdict.pairs_with == "caption":
                yield Advice(0, action, verdict.reader, options=options, safe=not plan.loses)
            continue
        samples = verdict.samples if plan.loses else max(then.samples, then.usable)
        advice = advice_with_gain(verdict, action, then.usable, samples=samples, exact=exact)
        usable = then.usable if repair.is_known else None
        yield replace(advice, usable=usable, options=options, safe=not plan.loses)


def _options(forecast: RepairForecast, plan: RepairPlan) -> tuple[str, ...]:
    """Return the options of the repair command.

    There are none if ``wdsflow repair`` without options does the same.
    """
    if plan.steps() or not _is_default(forecast, plan):
        return plan.options()
    return ()


def _is_default(forecast: RepairForecast, plan: RepairPlan) -> bool:
    """Return whether a repair that is planned for OpenCLIP would have no steps, either."""
    (name,) = resolve("open-clip", versions())
    if [reader.name for reader in forecast.readers] == [name]:
        return True
    evidence = Evidence(forecast.evidence.level, forecast.repaired(plan).shards)
    verdict = judge(evidence, READERS[name]())
    return verdict.usable == verdict.samples


def _description(forecast: RepairForecast, plan: RepairPlan) -> str:
    """Return in one line what a repair does to these shards."""
    steps = [escape(step.action, 100) for step in plan.steps()]
    if plan.drop_bad:
        lossless = forecast.repaired(replace(plan, drop_bad=False))
        left_out = lossless.samples - forecast.repaired(plan).samples
        steps[-1] += f", {left_out:,} in all"
    text = enumeration([*_structure(forecast, plan), *steps]) or "write plain tars"
    now = forecast.empty_captions()
    then = forecast.empty_captions(plan)
    if then < now:
        text += f" (captions without text: now {now:,}, then {then:,})"
    return text


def _structure(forecast: RepairForecast, plan: RepairPlan) -> Iterator[str]:
    """Yield what a repair does to the structure of these shards."""
    fixed: Counter[str] = Counter()
    for shard in forecast.repaired(plan).shards:
        fixed += shard.fixed
    for fix, words in _FIXES.items():
        if fixed[fix]:
            yield words
    shards = forecast.evidence.shards
    for names, words in _STRUCTURE.items():
        if any(shard.tally(name).count for shard in shards for name in names):
            yield words
    if not plan.name_images and any(shard.tally("name.no-field").count for shard in shards):
        yield "leave out files without an extension"
    if any(shard.compression for shard in shards):
        yield "write plain tars"
    if any(shard.error for shard in shards):
        yield "leave out unreadable shards"
    if any(not (shard.samples or shard.error) for shard in shards):
        yield "leave out shards without samples"


def why_no_repair(verdict: Verdict) -> Advice:
    """Return why no repair helps a reader, and what has to be done at the source."""
    reason = max(verdict.reasons, key=lambda reason: reason.count)
    remedy = _AT_THE_SOURCE.get(reason.slug, "write them again at the source")
    title = short_title(verdict.title)
    action = f"no repair brings {title} more samples ({reason.message}): {remedy}"
    return Advice(0, action, verdict.reader)
