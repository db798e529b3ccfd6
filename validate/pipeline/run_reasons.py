"""Why samples did not come out of the user's pipeline, by stage, error and line, and how the run ended."""

from collections.abc import Iterator

from wdsflow.text.shell import escape
from wdsflow.text.words import duration, how_many, short

from ..verdicts.verdict import Outcome, Reason
from .observation import Observation, StageLoss
from .run_reports import BLANK, COMBINED, Fault, ReportedStage


def reasons_of(seen: Observation, outcome: Outcome, unclear: str) -> Iterator[Reason]:
    """Yield the reasons: first the end of the run, then the losses, the most frequent first."""
    if seen.run.fault is not None:
        yield _end(seen, seen.run.fault)
    elif outcome == "stalls":
        yield Reason("hang", 0, _stall(seen))
    if outcome == "not judged":
        yield Reason("not-judged", 0, unclear)
        return
    if seen.replaced:
        yield _replaced(seen)
    for each in sorted(seen.losses, key=lambda loss: -loss.samples):
        yield _loss(seen, each)
    shown_by_keys = seen.limited and seen.read is None
    if (seen.ended_by == "itself" or shown_by_keys) and (missing := _missing(seen)) > 0:
        yield _unread_or_dropped(seen, missing)
    if seen.in_buffers:
        text = "they were in a buffer, or in a batch that was not full, when reading ended: not counted as lost"
        yield Reason("incomplete", seen.in_buffers, f"{seen.in_buffers:,} of {seen.total:,} samples: {text}")
    if seen.repeated or seen.draws:
        text = (
            f"samples came more than once: {seen.repeated or 0:,} of {seen.keys.all_with_repeats():,} had come before"
        )
        yield Reason("repeated", 0, text + _why_again(seen))
    for stage in seen.stages:
        if stage.combined:
            yield _combined(stage)
        if stage.multiplies:
            several = f"{stage.name} makes {stage.out:,} elements of {how_many(stage.taken, 'sample')}"
            text = f"{several}: samples come out more than once, or in parts{_in_brackets(stage.line)}"
            yield Reason("several", 0, text)


def _end(seen: Observation, fault: Fault) -> Reason:
    stage = seen.stages[fault.stage].name if 0 <= fault.stage < len(seen.stages) else "the pipeline"
    if seen.ended_by == "hang":
        where = fault.line or "in code that is not yours"
        text = f"{stage} hangs: no step for {duration(seen.run.idle)}, at {where}"
    elif seen.ended_by == "death":
        text = f"{stage} ends its process{_in_brackets(fault.error, fault.line)}"
    else:
        text = f"{stage} raises an exception, which ends the run{_in_brackets(fault.error, fault.line)}"
    if fault.key:
        text += f", at {_sample(fault.key, fault.shard)}"
    shard = fault.shard if fault.shard in seen.urls else None
    return Reason("hang" if seen.ended_by == "hang" else "crash", 0, text, shard, fault.key or None)


def _stall(seen: Observation) -> str:
    if seen.run.limit == "asks-ended-source":
        return "a stage asks its ended input again and again, and gives nothing"
    if seen.ended_by == "time":
        read = "" if seen.read is None else f", while {how_many(seen.read, 'sample')} entered"
        return f"nothing came out within {duration(seen.run.seconds)}{read}"
    return "it reads the shards again and again, and no sample comes out"


def _loss(seen: Observation, each: StageLoss) -> Reason:
    head, stage, loss = f"{each.samples:,} of {seen.total:,} samples: ", each.stage, each.loss
    if loss is None:
        slug = "together" if stage.kind == "batch" else "dropped"
        return Reason(slug, each.samples, f"{head}{stage.name} {_silently(stage)}")
    first = f"the first: {_sample(loss.key, loss.shard)}" if loss.key else ""
    if loss.error == BLANK:
        text = f"{head}{stage.name} gives None for {how_many(each.samples, 'sample')}{_in_brackets(loss.line, first)}"
        return Reason("dropped", each.samples, text, loss.shard or None, loss.key or None)
    does = "drops them" if loss.error else "leaves them out"
    text = f"{head}{stage.name} {does}{_in_brackets(loss.error, loss.line, first)}"
    return Reason("dropped", each.samples, text, loss.shard or None, loss.key or None)


def _combined(stage: ReportedStage) -> Reason:
    first = stage.losses[COMBINED]
    text = f"{stage.name} combines {how_many(stage.combined, 'sample')} with others, into elements of several samples"
    text += _in_brackets(stage.line, f"the first: {_sample(first.key, first.shard)}")
    return Reason("combined", 0, text, first.shard or None, first.key or None)


def _replaced(seen: Observation) -> Reason:
    text = "in their place others came out again, more often than the shards have them"
    stages = [stage for stage in seen.stages if stage.line and (stage.calls_function or not stage.is_followed)]
    if len(stages) == 1:
        text += f": {stages[0].name} gives them{_in_brackets(stages[0].line)}"
    at_least = "" if seen.least == seen.usable else "at least "
    return Reason("replaced", seen.replaced, f"{at_least}{seen.replaced:,} of {seen.total:,} samples: {text}")


def _silently(stage: ReportedStage) -> str:
    if stage.batch > 0 and not stage.out:
        return f"gets {how_many(stage.taken, 'sample')}, too few for one batch"
    if stage.kind == "batch":
        return "leaves out a batch that is not full, or its collate function drops them"
    logged = f"it logged {how_many(stage.logged, 'warning')}, the first: {stage.first_log}" if stage.logged else ""
    ended = "; its handler ended the stream there" if stage.ended_stream else ""
    return f"leaves them out{_in_brackets(stage.line, logged)}{ended}"


def _missing(seen: Observation) -> int:
    """Return how many samples of the shards no stage accounts for."""
    return seen.total - seen.usable - seen.replaced - sum(loss.samples for loss in seen.losses)


def _why_again(seen: Observation) -> str:
    if seen.draws:
        return "; it draws shards at random"
    if any(report.passes > 1 for report in seen.run.reports):
        return "; it repeats"
    workers = sum(report is not seen.main for report in seen.run.reports)
    return f"; it has {workers:,} workers, which may read the same samples" if workers > 1 else ""


def _unread_or_dropped(seen: Observation, count: int) -> Reason:
    """Return why samples did not even enter, or did not come out of code that has no stages."""
    head = f"{count:,} of {seen.total:,} samples: "
    scope = seen.summary().scope
    if early := seen.stopped_early:
        text = f"the pipeline ends after {how_many(seen.delivered, 'sample')} ({scope}): {early.name} stops before its input does"
        return Reason("ends", count, head + text)
    if seen.read is not None and not seen.stages[-1].ended:
        text = f"the pipeline ends after {how_many(seen.delivered, 'sample')} ({scope}), such as by with_epoch"
        return Reason("ends", count, head + text)
    unopened = [shard for shard in seen.evidence.shards if shard.url not in seen.opened]
    if seen.ended_by == "itself" and seen.opened and 0 < count <= sum(shard.samples for shard in unopened):
        text = f"the pipeline never opens {how_many(len(unopened), 'shard')}, such as {short(unopened[0].url)}"
        return Reason("unread", count, head + text)
    if seen.read is not None:
        text = "they did not enter: they are after damage, or their members are parts of other samples"
        return Reason("unread", count, head + text)
    line = next((stage.line for stage in seen.stages if stage.line), "")
    if not seen.has_keys:
        text = f"they did not come out of its own code{_in_brackets(line)}; which ones is not visible: let it give the __key__ as well"
        return Reason("dropped", count, head + text)
    missing = seen.keys.missing(seen.total)
    if not missing:
        return Reason("dropped", count, f"{head}they did not come out of its own code{_in_brackets(line)}")
    shard, key = missing[0]
    text = f"they did not come out of its own code{_in_brackets(line, f'the first: {_sample(key, shard)}')}"
    return Reason("dropped", count, head + text, shard, key)


def _in_brackets(*parts: str) -> str:
    text = ", ".join(filter(None, parts))
    return f" ({text})" if text else ""


def _sample(key: str, shard: str) -> str:
    kind = "" if key.startswith("item") else "sample "
    return f"{kind}{escape(key, 200)}" + (f" of {short(shard)}" if shard else "")
