"""The verdict on the user's own pipeline: what one run of it showed, and nothing beyond that."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from wdsflow.scan.evidence import Evidence
from wdsflow.shards.scratch import scratch
from wdsflow.shards.shard import Shard
from wdsflow.text.words import duration, how_many

from ..verdicts.verdict import PIPELINE, Outcome, Verdict
from .observed.copies_run import single_valued_columns
from .observed.input_content import InputSample
from .observed.observation import Observation
from .observed.output_content import OutputContent
from .observed.run_reasons import reasons_of
from .observed.sample_keys import SampleKeys
from .observed.unclear_runs import machine_fault_of, why_hidden, why_unclear
from .reports.run_lists import read_contents, read_opened, read_rows
from .run.observed_run import ObservedRun
from .run.run_pipeline import run_pipeline
from .run.run_request import RunRequest
from .sample_copies import SampleLocation, locations_in
from .values.sample_contents import contents_in

# Of a run without a limit of the user's.
SAMPLES, SECONDS = 10_000, 60.0
# Samples of which the keys are compared.
_MOST_KEYS = 100_000


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

    def request(
        self, urls: tuple[str, ...], folder: str, shard_samples: int, keys: frozenset[str]
    ) -> RunRequest:
        """Return the request for a run.

        Args:
            urls: of the shards.
            folder: for what the processes of the run report.
            shard_samples: in all shards.
            keys: of these samples; empty if there are too many.
        """
        if self.samples is not None:
            return RunRequest(urls, folder, samples=self.samples, keys=keys)
        if self.whole:
            return RunRequest(urls, folder, shard_samples=shard_samples, keys=keys)
        return RunRequest(
            urls,
            folder,
            samples=SAMPLES,
            seconds=self.seconds,
            shard_samples=shard_samples,
            keys=keys,
        )


def judge_pipeline(
    spec: str,
    evidence: Evidence,
    max_loss: float = 0.05,
    limits: RunLimits | None = None,
    *,
    allow_pipe: bool = False,
) -> Verdict:
    """Run a pipeline over the shards, and return the verdict on what was read.

    It runs in its own process, over the shards in their order.

    Args:
        spec: ``module:object`` or ``train.py:object``, see ``load_object`` and ``build``.
        evidence: of the scan of all shards.
        max_loss: share of samples, 0 to 1, that may be lost before the outcome is "loses".
        limits: of the run.
        allow_pipe: whether shards may be the output of commands.

    Raises:
        PipelineError: the pipeline cannot be found, imported or built.
    """
    limits = limits or RunLimits()
    urls = tuple(shard.url for shard in evidence.shards)
    locations: list[SampleLocation] = []
    # Remote shards would be read twice.
    is_local = not any("://" in url or url.startswith("pipe:") for url in urls)
    compares_samples = is_local and evidence.samples <= _MOST_KEYS
    if compares_samples:
        for url in urls:
            locations += locations_in(url, allow_pipe=allow_pipe)
    with scratch("run") as folder:
        keys = frozenset(location.key for location in locations)
        run = run_pipeline(
            spec, limits.request(urls, str(folder), evidence.samples, keys), limits.patience
        )
        observation = _observation(
            folder, run, evidence, locations, max_loss, allow_pipe=allow_pipe
        )
        if locations and _needs_proof(observation):
            unfilled = _most_in_unfilled_batches(observation)
            columns = single_valued_columns(
                spec, locations, unfilled, limits.patience, allow_pipe=allow_pipe
            )
            observation = replace(observation, single_valued=columns)
        return _verdict(spec, observation)


def _observation(
    folder: Path,
    run: ObservedRun,
    evidence: Evidence,
    locations: Sequence[SampleLocation],
    max_loss: float,
    *,
    allow_pipe: bool,
) -> Observation:
    """Return the numbers of a run.

    Args:
        folder: with the lists of the run.
        run: that has ended.
        evidence: of the scan of all shards.
        locations: of all samples; none if samples are not compared with the shards.
        max_loss: share of samples, 0 to 1.
        allow_pipe: whether shards may be the output of commands.
    """
    urls = tuple(shard.url for shard in evidence.shards)
    keys = SampleKeys(folder, [(location.shard, location.key) for location in locations])
    opened = read_opened(folder, urls)
    compared_shards = [url for url in urls if url in opened and locations]
    # Called, if at all, before the folder is removed.
    input_samples = partial(_input_samples, folder, keys, compared_shards, allow_pipe=allow_pipe)
    content = OutputContent(read_rows(folder), input_samples)
    return Observation(evidence, run, keys, content, urls, opened, max_loss)


def _input_samples(
    folder: Path, keys: SampleKeys, shards: Sequence[Shard], *, allow_pipe: bool
) -> list[InputSample]:
    """Return the samples that entered.

    If no stage has listed them, returns all samples of the shards that were opened.
    """
    samples = []
    for shard_and_key, content in read_contents(folder).items():
        samples.append(InputSample(content, keys.entered[shard_and_key]))
    if samples:
        return samples
    for url in shards:
        samples += [InputSample(content) for content in contents_in(url, allow_pipe=allow_pipe)]
    return samples


def _needs_proof(observation: Observation) -> bool:
    """Return whether the verdict depends on which samples came out.

    That is so if neither keys nor stages nor fields show it.
    """
    if observation.run.fault is not None or observation.run.ended_by == "hang":
        return False
    if not observation.delivered or why_hidden(observation):
        return False
    return observation.is_enough(observation.usable) and not observation.is_enough(
        observation.least_usable
    )


def _most_in_unfilled_batches(observation: Observation) -> int:
    """Return how many samples batches that are not full may leave out."""
    batch = max(stage.batch for stage in observation.run.stages)
    return max(0, batch - 1) * max(1, observation.run.workers)


def _verdict(spec: str, observation: Observation) -> Verdict:
    unclear = why_unclear(observation)
    outcome = _outcome(observation, unclear)
    reasons = tuple(reasons_of(observation, outcome, unclear))
    lost: Counter[str] = Counter()
    for reason in reasons:
        lost[reason.slug] += reason.count
    usable = observation.usable
    # What came out before a crash is not the question.
    least = usable if outcome in ("crashes", "stalls") else observation.least_usable
    return Verdict(
        reader=PIPELINE,
        title=spec,
        outcome=outcome,
        samples=observation.total,
        usable=usable,
        reasons=reasons,
        funnel=None,
        exact=least == usable,
        note=_note(spec, observation),
        # Only what is more than 0.
        lost=dict(+lost),
        least=None if least == usable else least,
        run=observation.summary(),
    )


def _outcome(observation: Observation, unclear: str) -> Outcome:
    if machine_fault_of(observation):
        return "not judged"
    if observation.run.ended_by in ("exception", "death"):
        return "crashes"
    if observation.run.ended_by == "hang":
        return "stalls"
    gave_nothing = not observation.delivered
    if gave_nothing and observation.run.ended_by == "time":
        return "stalls"
    if unclear:
        return "not judged"
    if gave_nothing and _ended_after_all_shards(observation):
        return "stalls"
    return "trains" if observation.is_enough(observation.usable) else "loses"


def _ended_after_all_shards(observation: Observation) -> bool:
    """Return whether a run that repeats or resamples had read all shards when a limit ended it."""
    run = observation.run
    if not run.is_limited or not (run.draws_shards or run.repeats):
        return False
    # It ends after several times the samples of the shards.
    if run.ended_by == "passes":
        return True
    # A limit of samples may end it earlier. As many samples as the shards hold are not
    # all of them: several workers may have read the same ones, and draws may have left shards out.
    has_read_enough = run.read_until_the_limit > observation.evidence.samples
    if not observation.sees_shards:
        return has_read_enough
    return has_read_enough and observation.opened.issuperset(observation.urls)


def _note(spec: str, observation: Observation) -> str:
    """Return how much was read, and what ended it."""
    note = f"{spec} was run {_until(observation)}: {_counts(observation)}; it opened {observation.summary().scope}"
    if observation.run.is_limited:
        note += "; the verdict is about what was read, not about the rest"
    return note


def _until(observation: Observation) -> str:
    read = observation.run.read_until_the_limit
    until_read = f"until {how_many(read, 'sample')} {'was' if read == 1 else 'were'} read"
    repeats = ", and had not ended by then"
    if observation.run.never_ends:
        repeats = ", because it repeats without end"
    texts = {
        "itself": "to its own end",
        "samples": until_read,
        "time": f"for {duration(observation.run.seconds)}",
        "passes": until_read + repeats,
        "exception": "until the exception",
        "death": "until its process ended",
        "hang": "until it was killed",
    }
    return texts[observation.run.ended_by]


def _counts(observation: Observation) -> str:
    if observation.run.read is not None:
        return f"{how_many(observation.run.read, 'sample')} entered, {observation.delivered:,} came out"
    if observation.has_keys:
        return f"{how_many(observation.delivered, 'sample')} came out"
    counts = f"{how_many(observation.delivered, 'element')} came out, in which no key of a sample is visible"
    if observation.total and observation.is_enough(observation.least_usable):
        counts += "; samples were recognized by their content"
    return counts
