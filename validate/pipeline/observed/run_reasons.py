"""Why samples did not come out of the user's pipeline, and how the run ended.

Losses are listed by stage, error and line.
"""

from collections.abc import Iterator

from wdsflow.text.shell import escape
from wdsflow.text.words import duration, how_many, short_name

from ...tracing.trace_table import logged_warnings
from ...verdicts.verdict import Outcome, Reason
from ..meters.reported_stage import BLANK, COMBINED, ReportedStage
from ..reports.process_report import Fault
from .observation import Observation
from .stage_losses import StageLoss

# Of a key.
_MOST_LETTERS = 200


def reasons_of(observation: Observation, outcome: Outcome, unclear: str) -> Iterator[Reason]:
    """Yield the reasons: first the end of the run, then the losses, the most frequent first.

    Args:
        observation: of the run.
        outcome: of the verdict.
        unclear: why it is not judged.
    """
    if observation.run.fault is not None:
        yield _fault(observation, observation.run.fault)
    elif outcome == "stalls":
        yield Reason("hang", 0, _stall(observation))
    if outcome == "not judged":
        yield Reason("not-judged", 0, unclear)
        return
    yield from _losses(observation)
    yield from _remarks(observation)


def _losses(observation: Observation) -> Iterator[Reason]:
    """Yield the reasons why samples did not come out."""
    if observation.replaced:
        yield _replaced(observation)
    for loss in sorted(observation.losses, key=lambda loss: -loss.samples):
        yield _loss(observation, loss)
    is_shown_by_keys = observation.run.is_limited and observation.run.read is None
    missing = _missing(observation)
    if missing > 0 and (observation.run.ended_by == "itself" or is_shown_by_keys):
        yield _unread_or_dropped(observation, missing)


def _remarks(observation: Observation) -> Iterator[Reason]:
    """Yield what is no loss, but explains the numbers."""
    if observation.in_buffers:
        samples = f"{observation.in_buffers:,} of {observation.total:,} samples"
        text = "they were in a buffer, or in a batch that was not full, when reading ended: not counted as lost"
        yield Reason("incomplete", observation.in_buffers, f"{samples}: {text}")
    if observation.repeated or observation.run.draws_shards:
        repeated = f"{observation.repeated or 0:,} of {observation.keys.total_with_repeats():,} had come before"
        text = f"samples came more than once: {repeated}{_why_repeated(observation)}"
        yield Reason("repeated", 0, text)
    for stage in observation.run.stages:
        if stage.combined:
            yield _combined(stage)
        if stage.multiplies:
            elements = (
                f"{stage.name} makes {stage.out:,} elements of {how_many(stage.inputs, 'sample')}"
            )
            text = f"{elements}: samples come out more than once, or in parts{_in_brackets(stage.line)}"
            yield Reason("several", 0, text)


def _fault(observation: Observation, fault: Fault) -> Reason:
    """Return what ended the run."""
    stage = "the pipeline"
    if 0 <= fault.stage < len(observation.run.stages):
        stage = observation.run.stages[fault.stage].name
    slug = "crash"
    if observation.run.ended_by == "hang":
        slug = "hang"
        line = fault.line or "in code that is not yours"
        text = f"{stage} hangs: no step for {duration(observation.run.idle)}, at {line}"
    elif observation.run.ended_by == "death":
        text = f"{stage} ends its process{_in_brackets(fault.error, fault.line)}"
    else:
        text = f"{stage} raises an exception, which ends the run{_in_brackets(fault.error, fault.line)}"
    if fault.key:
        text += f", at {_sample(fault.key, fault.shard)}"
    shard = fault.shard if fault.shard in observation.urls else None
    return Reason(slug, 0, text, shard, fault.key or None)


def _stall(observation: Observation) -> str:
    if observation.run.limit == "asks-ended-source":
        return "a stage asks its ended input again and again, and gives nothing"
    if observation.run.ended_by != "time":
        return "it reads the shards again and again, and no sample comes out"
    text = f"nothing came out within {duration(observation.run.seconds)}"
    if observation.run.read is not None:
        text += f", while {how_many(observation.run.read, 'sample')} entered"
    return text


def _loss(observation: Observation, stage_loss: StageLoss) -> Reason:
    """Return what one stage lost for one reason."""
    stage, loss, samples = stage_loss
    share = f"{samples:,} of {observation.total:,} samples"
    if loss is None:
        slug = "together" if stage.kind == "batch" else "dropped"
        return Reason(slug, samples, f"{share}: {stage.name} {_silently(stage)}")
    first = f"the first: {_sample(loss.key, loss.shard)}" if loss.key else ""
    if loss.error == BLANK:
        action = f"gives None for {how_many(samples, 'sample')}{_in_brackets(loss.line, first)}"
    elif loss.error:
        action = f"drops them{_in_brackets(loss.error, loss.line, first)}"
    else:
        action = f"leaves them out{_in_brackets(loss.line, first)}"
    return Reason(
        "dropped", samples, f"{share}: {stage.name} {action}", loss.shard or None, loss.key or None
    )


def _silently(stage: ReportedStage) -> str:
    """Return what a stage did with samples that it lost without an exception."""
    if stage.batch > 0 and not stage.out:
        return f"gets {how_many(stage.inputs, 'sample')}, too few for one batch"
    if stage.kind == "batch":
        return "leaves out a batch that is not full, or its collate function drops them"
    logged = ""
    if stage.logged:
        logged = f"it {logged_warnings(stage)}"
    text = f"leaves them out{_in_brackets(stage.line, logged)}"
    if stage.ended_stream:
        text += "; its handler ended the stream there"
    return text


def _combined(stage: ReportedStage) -> Reason:
    first = stage.losses[COMBINED]
    samples = how_many(stage.combined, "sample")
    example = _in_brackets(stage.line, f"the first: {_sample(first.key, first.shard)}")
    text = f"{stage.name} combines {samples} with others, into elements of several samples{example}"
    return Reason("combined", 0, text, first.shard or None, first.key or None)


def _replaced(observation: Observation) -> Reason:
    text = "in their place others came out again, more often than the shards have them"
    stages = [stage for stage in observation.run.stages if _may_replace(stage)]
    # Of several it is not visible which one does it.
    if len(stages) == 1:
        text += f": {stages[0].name} gives them{_in_brackets(stages[0].line)}"
    samples = f"{observation.replaced:,} of {observation.total:,} samples"
    if observation.least_usable != observation.usable:
        samples = f"at least {samples}"
    return Reason("replaced", observation.replaced, f"{samples}: {text}")


def _may_replace(stage: ReportedStage) -> bool:
    """Return whether the user's code of a stage may give one sample in the place of another."""
    return bool(stage.line) and (stage.calls_function or not stage.is_followed)


def _missing(observation: Observation) -> int:
    """Return how many samples of the shards no stage accounts for."""
    return observation.total - observation.usable - observation.replaced - observation.lost


def _why_repeated(observation: Observation) -> str:
    if observation.run.draws_shards:
        return "; it draws shards at random"
    if any(report.passes > 1 for report in observation.run.reports):
        return "; it repeats"
    if observation.run.workers > 1:
        return f"; it has {observation.run.workers:,} workers, which may read the same samples"
    return ""


def _unread_or_dropped(observation: Observation, count: int) -> Reason:
    """Return why samples did not even enter, or did not come out of code that has no stages."""
    share = f"{count:,} of {observation.total:,} samples"
    early_end = _early_end(observation)
    if early_end:
        return Reason("ends", count, f"{share}: {early_end}")
    unopened = [
        shard for shard in observation.evidence.shards if shard.url not in observation.opened
    ]
    unopened_samples = sum(shard.samples for shard in unopened)
    if (
        observation.run.ended_by == "itself"
        and observation.opened
        and 0 < count <= unopened_samples
    ):
        shards = f"{how_many(len(unopened), 'shard')}, such as {short_name(unopened[0].url)}"
        return Reason("unread", count, f"{share}: the pipeline never opens {shards}")
    if observation.run.read is not None:
        text = (
            "they did not enter: they are after damage, or their members are parts of other samples"
        )
        return Reason("unread", count, f"{share}: {text}")
    return _dropped_by_own_code(observation, count, share)


def _early_end(observation: Observation) -> str:
    """Return how the pipeline ends before the shards do; "" if it does not."""
    delivered = f"{how_many(observation.delivered, 'sample')} ({observation.summary().scope})"
    stage = observation.run.stage_ended_early
    if stage is not None:
        return f"the pipeline ends after {delivered}: {stage.name} stops before its input does"
    if observation.run.read is not None and not observation.run.stages[-1].ended:
        return f"the pipeline ends after {delivered}, such as by with_epoch"
    return ""


def _dropped_by_own_code(observation: Observation, count: int, share: str) -> Reason:
    """Return the reason that samples did not come out of code without stages.

    It names the first of them if keys show it.

    Args:
        observation: of the run.
        count: of the samples.
        share: the same as a text.
    """
    line = ""
    for stage in reversed(observation.run.stages):
        line = stage.line or line
    text = f"{share}: they did not come out of its own code"
    if not observation.has_keys:
        text += f"{_in_brackets(line)}; which ones is not visible: let it give the __key__ as well"
        return Reason("dropped", count, text)
    missing = observation.keys.missing(observation.total)
    if not missing:
        return Reason("dropped", count, text + _in_brackets(line))
    shard, key = missing[0]
    text += _in_brackets(line, f"the first: {_sample(key, shard)}")
    return Reason("dropped", count, text, shard, key)


def _in_brackets(*parts: str) -> str:
    text = ", ".join(part for part in parts if part)
    return f" ({text})" if text else ""


def _sample(key: str, shard: str) -> str:
    # An item of a map-style dataset has a number, no key.
    name = escape(key, _MOST_LETTERS)
    if not key.startswith("item"):
        name = f"sample {name}"
    return f"{name} of {short_name(shard)}" if shard else name
