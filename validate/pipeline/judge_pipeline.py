"""The verdict on the user's own pipeline: what one run of it showed, and nothing beyond that."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from wdsflow.scan.evidence import Evidence
from wdsflow.shards.scratch import scratch
from wdsflow.shards.shard import Shard
from wdsflow.text.words import duration, how_many, short

from ..verdicts.verdict import PIPELINE, Outcome, Verdict
from .copies_run import single_valued_columns
from .observation import Observation
from .output_content import InputSample, OutputContent
from .run_lists import read_contents, read_opened, read_rows
from .run_pipeline import run_pipeline
from .run_reasons import reasons_of
from .run_reports import ReportedStage, RunRequest
from .sample_contents import contents_in
from .sample_copies import locations_in
from .sample_keys import SampleKeys

# Of a run without a limit of the user's.
SAMPLES, SECONDS = 10_000, 60.0
# Samples of which the keys are compared.
_MOST_KEYS = 100_000
_FUNCTION = "name a function of the shards, def make(urls): ..."
_KEEP_FIELDS = "let it give a field of the shards unchanged as well while you validate, such as the caption"
_KEEP_KEYS = 'let it give the __key__ as well while you validate, such as by wds.to_tuple("__key__", "jpg", "txt")'


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How much of a pipeline is read."""

    # None: up to SAMPLES, or ``seconds``.
    samples: int | None = None
    # To its end.
    whole: bool = False
    seconds: float = SECONDS
    # Seconds without any step after which it hangs.
    patience: float = 60.0

    def request(self, urls: tuple[str, ...], folder: str, held: int, keys: frozenset[str]) -> RunRequest:
        """Return the request for a run over shards that hold so many samples."""
        if self.samples is not None:
            return RunRequest(urls, folder, self.samples, keys=keys)
        if self.whole:
            return RunRequest(urls, folder, held=held, keys=keys)
        return RunRequest(urls, folder, SAMPLES, self.seconds, held, keys)


def judge_pipeline(
    spec: str, evidence: Evidence, max_loss: float = 0.05, limits: RunLimits | None = None, *, allow_pipe: bool = False
) -> Verdict:
    """Run a pipeline over the shards, in their order and in its own process, and return the verdict on what was read.

    Args:
        spec: ``module:object`` or ``train.py:object``, see ``find`` and ``build``.
        evidence: of the scan of all shards.
        max_loss: share of samples, 0 to 1, that may be lost before the outcome is "loses".
        limits: of the run.
        allow_pipe: whether shards may be the output of commands.

    Raises:
        PipelineError: the pipeline cannot be found, imported or built.
    """
    limits = limits or RunLimits()
    urls = tuple(shard.url for shard in evidence.shards)
    remote = any("://" in url or url.startswith("pipe:") for url in urls)
    compares = not remote and evidence.samples <= _MOST_KEYS
    places = [place for url in urls for place in locations_in(url, allow_pipe=allow_pipe)] if compares else []
    with scratch("run") as folder:
        keys = frozenset(place.key for place in places)
        request = limits.request(urls, str(folder), evidence.samples, keys)
        run = run_pipeline(spec, request, limits.patience)
        noted = SampleKeys(folder, [(place.shard, place.key) for place in places])
        opened = read_opened(folder, urls)
        shards = [url for url in urls if url in opened] if compares else []
        content = OutputContent(
            read_rows(folder), partial(_input_samples, folder, noted, shards, allow_pipe=allow_pipe)
        )
        seen = Observation(evidence, run, noted, content, urls, opened, max_loss)
        if places and _needs_proof(seen):
            rest = _rest_of_batches(seen)
            columns = single_valued_columns(spec, places, rest, limits.patience, allow_pipe=allow_pipe)
            seen = replace(seen, single_valued=columns)
        return _verdict(spec, seen)


def _input_samples(folder: Path, keys: SampleKeys, shards: Sequence[Shard], *, allow_pipe: bool) -> list[InputSample]:
    """Return the samples that entered: those that stages have noted, or else all of the shards that were opened."""
    noted = read_contents(folder)
    if noted:
        return [InputSample(content, keys.entered[sample]) for sample, content in noted.items()]
    return [InputSample(content) for url in shards for content in contents_in(url, allow_pipe=allow_pipe)]


def _needs_proof(seen: Observation) -> bool:
    """Return whether the verdict depends on which samples came out, and neither keys nor stages nor fields show it."""
    if seen.run.fault is not None or seen.ended_by == "hang" or not seen.delivered or _hidden(seen):
        return False
    return seen.is_enough(seen.usable) and not seen.is_enough(seen.least)


def _rest_of_batches(seen: Observation) -> int:
    """Return how many samples batches that are not full may leave out."""
    batch = max(stage.batch for stage in seen.stages)
    workers = sum(report is not seen.main for report in seen.run.reports) or 1
    return max(0, batch - 1) * workers


def _verdict(spec: str, seen: Observation) -> Verdict:
    unclear = _unclear(seen)
    outcome = _outcome(seen, unclear)
    reasons = tuple(reasons_of(seen, outcome, unclear))
    lost: Counter[str] = Counter()
    for reason in reasons:
        lost[reason.slug] += reason.count
    least = seen.usable if outcome in ("crashes", "stalls") else seen.least
    return Verdict(
        reader=PIPELINE,
        title=spec,
        outcome=outcome,
        samples=seen.total,
        usable=seen.usable,
        reasons=reasons,
        funnel=None,
        exact=least == seen.usable,
        note=_note(spec, seen),
        lost=dict(+lost),
        least=None if least == seen.usable else least,
        run=seen.summary(),
    )


def _outcome(seen: Observation, unclear: str) -> Outcome:
    if _machine(seen):
        return "not judged"
    if seen.ended_by in ("exception", "death"):
        return "crashes"
    if seen.ended_by == "hang" or (seen.ended_by == "time" and not seen.delivered):
        return "stalls"
    if not seen.delivered and seen.limited and (seen.draws or seen.repeats) and not unclear:
        return "stalls"
    if unclear:
        return "not judged"
    return "trains" if seen.is_enough(seen.usable) else "loses"


def _unclear(seen: Observation) -> str:
    """Return why the run does not show how many samples are left out; "" if it does."""
    if hidden := _hidden(seen):
        return hidden
    if not seen.is_enough(seen.usable) or seen.is_enough(seen.least):
        return ""
    count = f"{how_many(seen.delivered, 'element')} came out of {how_many(seen.total, 'sample')}"
    shown = f"content shows {seen.least:,} different samples among them"
    if seen.is_followed:
        return f"{count}, but their content repeats more than that of the shards: {shown}; {_KEEP_FIELDS}"
    return f"{count}; which samples they are is not visible: {shown}; {_KEEP_KEYS}"


def _hidden(seen: Observation) -> str:
    """Return why it is hidden how many samples came out, whatever their content; "" if it is not."""
    if machine := _machine(seen):
        return f"{machine}: validate where it will train"
    known = {os.path.realpath(url) for url in seen.urls}
    others = [shard for shard, _ in seen.keys.entered if shard and os.path.realpath(shard) not in known]
    if others:
        some = f"{how_many(len(others), 'sample')} came from shards that were not named, such as {short(others[0])}"
        return f"{some}: {_FUNCTION}"
    if seen.delivered and seen.sees_shards and not seen.opened:
        return f"it was not seen to open any of the shards: {_FUNCTION}"
    if not seen.delivered:
        return _too_few(seen)
    if seen.without_key and (seen.usable < seen.total or (seen.limited and seen.read is None)):
        some = f"{how_many(seen.without_key, 'element')} came out without the __key__ that others have"
        return f"{some}: which samples they are is not visible"
    return "" if seen.has_keys and not (seen.limited and seen.read is None) else _uncounted(seen)


def _too_few(seen: Observation) -> str:
    """Return which stage gave no batch because a limit ended the run before one was full; "" if none."""
    workers = sum(report is not seen.main for report in seen.run.reports) or 1
    waiting = (stage for stage in seen.stages if not stage.out and 0 < stage.taken < stage.batch * workers)
    stage = next(waiting, None)
    if stage is None or seen.ended_by not in ("samples", "passes"):
        return ""
    return f"{how_many(stage.taken, 'sample')} are too few for one batch of {stage.name}: read more with --samples"


def _uncounted(seen: Observation) -> str:
    """Return why the elements that came out cannot be counted as samples; "" if they can."""
    several = next((each for each in seen.stages if each.multiplies), None)
    if several is not None:
        text = f"{several.name} made {several.out:,} elements of {how_many(several.taken, 'sample')}"
        return f"{text}: which samples are among them is not visible; let it keep the __key__"
    if seen.stages[-1].kind == "batch" and seen.stages[-1].unclear:
        text = f"{how_many(seen.stages[-1].out, 'batch', 'batches')} came out, and how many samples they hold is not visible"
        return f"{text}; let them keep the __key__ of each sample"
    perhaps_batches = seen.main is not None and seen.main.perhaps_batches > 0 and seen.stages[-1].kind != "batch"
    too_few = max(seen.delivered, seen.usable) < seen.total
    if perhaps_batches and too_few and any(map(_may_batch, seen.stages)):
        text = f"{how_many(seen.delivered, 'element')} came out, each of which may be a batch of any size"
        return f"{text}; let them keep the __key__ of each sample"
    if seen.unexplained:
        text = f"{seen.unexplained:,} of the {how_many(seen.read or 0, 'sample')} that entered are in no element that came out"
        return f"{text}, and no stage shows where they were lost: let it keep the __key__ of each sample"
    if seen.read is not None:
        return ""
    if seen.limited and not seen.is_in_order:
        return "it reads the tars in its own code: how many samples it leaves out is visible only at its end"
    return ""


def _may_batch(stage: ReportedStage) -> bool:
    """Return whether a stage of the user may have made batches of samples: it gave fewer elements than it took."""
    return bool(stage.line) and (stage.number == 1 or (stage.taken > stage.out and not stage.losses))


def _machine(seen: Observation) -> str:
    """Return what this machine lacks for the pipeline; "" if nothing."""
    faults = [loss.machine for stage in seen.stages for loss in stage.losses.values()]
    faults += [seen.run.fault.machine] if seen.run.fault is not None else []
    return next(filter(None, faults), "")


def _note(spec: str, seen: Observation) -> str:
    """Return how much was read, and what ended it."""
    read = seen.read_until_the_limit
    until = f"until {how_many(read, 'sample')} {'was' if read == 1 else 'were'} read"
    ends = {
        "itself": "to its own end",
        "samples": until,
        "time": f"for {duration(seen.run.seconds)}",
        "passes": until + (", because it repeats without end" if seen.never_ends else ", and had not ended by then"),
        "exception": "until the exception",
        "death": "until its process ended",
        "hang": "until it was killed",
    }
    counts = f"{how_many(seen.delivered, 'sample')} came out"
    if seen.read is not None:
        counts = f"{how_many(seen.read, 'sample')} entered, {seen.delivered:,} came out"
    elif not seen.has_keys:
        counts = f"{how_many(seen.delivered, 'element')} came out, in which no key of a sample is visible"
        if seen.total and seen.is_enough(seen.least):
            counts += "; samples were recognized by their content"
    note = f"{spec} was run {ends[seen.ended_by]}: {counts}; it opened {seen.summary().scope}"
    return f"{note}; the verdict is about what was read, not about the rest" if seen.limited else note
