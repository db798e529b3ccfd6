"""Why a run of the user's pipeline does not show how many samples are left out."""

import os

from wdsflow.text.words import how_many, short_name

from ..meters.reported_stage import ReportedStage
from .observation import Observation

_NAME_A_FUNCTION = "name a function of the shards, def make(urls): ..."
_KEEP_FIELDS = (
    "let it give a field of the shards unchanged as well while you validate, such as the caption"
)
_KEEP_KEYS = 'let it give the __key__ as well while you validate, such as by wds.to_tuple("__key__", "jpg", "txt")'
_KEEP_KEY_OF_EACH = "let them keep the __key__ of each sample"


def why_unclear(observation: Observation) -> str:
    """Return why the run does not show how many samples are left out; "" if it does."""
    hidden = why_hidden(observation)
    if hidden:
        return hidden
    if not observation.is_enough(observation.usable) or observation.is_enough(
        observation.least_usable
    ):
        return ""
    delivered = how_many(observation.delivered, "element")
    came_out = f"{delivered} came out of {how_many(observation.total, 'sample')}"
    shown = f"content shows {observation.least_usable:,} different samples among them"
    if observation.is_followed:
        return f"{came_out}, but their content repeats more than that of the shards: {shown}; {_KEEP_FIELDS}"
    return f"{came_out}; which samples they are is not visible: {shown}; {_KEEP_KEYS}"


def why_hidden(observation: Observation) -> str:
    """Return why it is hidden how many samples came out; "" if it is not.

    Such a reason holds whatever the content of the samples.
    """
    missing = machine_fault_of(observation)
    if missing:
        return f"{missing}: validate where it will train"
    other_shards = _other_shards(observation)
    if other_shards:
        samples = how_many(len(other_shards), "sample")
        example = short_name(other_shards[0])
        return (
            f"{samples} came from shards that were not named, such as {example}: {_NAME_A_FUNCTION}"
        )
    if observation.delivered and observation.sees_shards and not observation.opened:
        return f"it was not seen to open any of the shards: {_NAME_A_FUNCTION}"
    if not observation.delivered:
        return _too_few_for_a_batch(observation)
    # Of a run that a limit ended, it is not visible how many samples it would have given.
    limited_without_stages = observation.run.is_limited and observation.run.read is None
    if observation.without_key and (
        observation.usable < observation.total or limited_without_stages
    ):
        elements = how_many(observation.without_key, "element")
        return f"{elements} came out without the __key__ that others have: which samples they are is not visible"
    if observation.has_keys and not limited_without_stages:
        return ""
    return _why_not_counted(observation)


def machine_fault_of(observation: Observation) -> str:
    """Return what this machine lacks for the pipeline; "" if nothing."""
    for stage in observation.run.stages:
        for loss in stage.losses.values():
            if loss.machine_fault:
                return loss.machine_fault
    fault = observation.run.fault
    return fault.machine_fault if fault is not None else ""


def _other_shards(observation: Observation) -> list[str]:
    """Return the shards of samples that came from shards that were not named.

    There is one entry for each sample.
    """
    named = {os.path.realpath(url) for url in observation.urls}
    others = []
    for shard, _ in observation.keys.entered:
        if shard and os.path.realpath(shard) not in named:
            others.append(shard)
    return others


def _too_few_for_a_batch(observation: Observation) -> str:
    """Return which stage got too few samples for a batch; "" if none did.

    A limit ended the run before a batch of it was full.
    """
    if observation.run.ended_by not in ("samples", "passes"):
        return ""
    for stage in observation.run.stages:
        # Each worker fills a batch of its own.
        needed = stage.batch * max(1, observation.run.workers)
        if not stage.out and 0 < stage.inputs < needed:
            samples = how_many(stage.inputs, "sample")
            return f"{samples} are too few for one batch of {stage.name}: read more with --samples"
    return ""


def _why_not_counted(observation: Observation) -> str:
    """Return why the elements that came out cannot be counted as samples; "" if they can."""
    for stage in observation.run.stages:
        if stage.multiplies:
            elements = (
                f"{stage.name} made {stage.out:,} elements of {how_many(stage.inputs, 'sample')}"
            )
            return (
                f"{elements}: which samples are among them is not visible; let it keep the __key__"
            )
    last = observation.run.stages[-1]
    if last.kind == "batch" and last.unclear:
        batches = how_many(last.out, "batch", "batches")
        return f"{batches} came out, and how many samples they hold is not visible; {_KEEP_KEY_OF_EACH}"
    if _may_give_batches(observation):
        elements = how_many(observation.delivered, "element")
        return f"{elements} came out, each of which may be a batch of any size; {_KEEP_KEY_OF_EACH}"
    if observation.unexplained:
        entered = how_many(observation.run.read or 0, "sample")
        samples = f"{observation.unexplained:,} of the {entered} that entered are in no element that came out"
        return f"{samples}, and no stage shows where they were lost: let it keep the __key__ of each sample"
    if observation.run.read is None and observation.run.is_limited and not observation.is_in_order:
        return "it reads the tars in its own code: how many samples it leaves out is visible only at its end"
    return ""


def _may_give_batches(observation: Observation) -> bool:
    """Return whether elements that came out may be batches.

    No stage is known to make batches.
    """
    if (
        observation.run.main is None
        or not observation.run.main.possible_batches
        or observation.run.stages[-1].kind == "batch"
    ):
        return False
    if max(observation.delivered, observation.usable) >= observation.total:
        return False
    return any(map(_may_make_batches, observation.run.stages))


def _may_make_batches(stage: ReportedStage) -> bool:
    """Return whether a stage of the user may have made batches of samples.

    Such a stage yields fewer elements than it gets.
    """
    if not stage.line:
        return False
    return stage.number == 1 or (stage.inputs > stage.out and not stage.losses)
