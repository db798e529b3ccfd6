"""Runs that get too few samples."""

from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.words import how_many, size

from ..finding import Finding, Repair
from ..forecast.forecast_result import Forecast
from ..forecast.working_settings import working_settings
from ..verdicts.verdict import PIPELINE
from ..verdicts.wording import short_title
from .kit.base import Context, Rule
from .kit.training_rules import TrainingRule, flag_repair

_WORKS = {
    "--workers": ", the most that works",
    "--batch-size": ", the largest that works",
    "--dataset-resampled": ": every worker then draws from all shards",
}
# The largest share of a worker over the smallest.
_RATIO = 1.5
# Share of the shards that is not drawn in an epoch, from which on that is reported.
_UNSEEN_SHARE = 0.1
# Seconds until the first batch that are reported, at the slow end of the estimate.
_SLOW_FIRST_BATCH = 300.0
# What a training does, by the outcome of its verdict.
_OUTCOME_VERBS = {
    "crashes": "crashes",
    "stalls": "hangs",
    "loses": "loses too many samples",
}


class NothingPasses(Rule):
    """No sample reaches a batch.

    What: no sample passes the steps of the reader before a batch. The message has the first reason;
    the other findings say where and why.

    Why it matters: OpenCLIP makes a worker repeat its shards until it has given as many batches as
    the epoch needs (``with_epoch`` on webdataset <= 0.2.86). If nothing passes, it hangs: "Start
    epoch 0", the GPU at 0 %, no error, and no line in the log, because its filter drops samples
    silently. With ``--dataset-resampled`` every version does this. Other readers end with an empty
    epoch or an exception.

    In practice: open_clip#1016, #569, #480, #61; webdataset#68, #188. The usual advice is to print
    ``has_caption`` and ``has_image`` from inside the filter.

    Fix: the advice in the report lists the changes that would bring samples back, and how many.
    """

    code = "P301"
    severity = "error"
    # Reports the same, and names the missing field.
    requires = ("F101",)

    def check(self, context: Context) -> Iterator[Finding]:
        if not context.evidence.samples:
            # Nothing could be read: other rules report why.
            return
        for verdict in context.verdicts:
            if verdict.usable or verdict.outcome in ("crashes", "not judged"):
                continue
            why = f": {verdict.reasons[0].message}" if verdict.reasons else ""
            effect = "there is nothing to train on"
            if verdict.outcome == "stalls":
                effect = "training hangs"
            title = short_title(verdict.title)
            message = f"no sample reaches a batch in {title}, {effect}{why}"
            yield self.finding(message, [verdict.reader], count=verdict.samples, of=verdict.samples)


def _sharing(context: Context, arguments: Arguments, forecast: Forecast) -> Repair | None:
    """Return the setting with which every worker gets batches.

    None if the set is smaller than one batch.
    """
    reader = context.reader_named(forecast.reader)
    usable = context.usable_samples(forecast.reader)
    setting = next(working_settings(context.evidence, reader, arguments, usable), None)
    return flag_repair(*setting, note=_WORKS[setting[0]]) if setting else None


class StarvedWorker(TrainingRule):
    """A loader worker never fills a batch.

    What: OpenCLIP shuffles the list of shards by seed and epoch, and distributes it to ranks, then
    to the workers of each rank. wdsflow computed this split: the shards of some worker hold fewer
    usable samples than one batch.

    Why it matters: training drops the unfinished batch at the end of each pass, so this worker
    starts over again and again. torch takes batches from the workers in turn: a worker that gives
    none stops its rank. The other ranks wait for it in the next all-reduce, until NCCL's timeout
    ends the run with a message that does not mention data. This may happen only in a later epoch,
    when the shards are distributed again.

    In practice: open_clip#61 ("hangs with 2 workers, fine with 1"), #1024 (WorkNCCL timeout);
    webdataset#188, #225, #65.

    Fix: fewer workers or a smaller batch, as the message says; shards of equal size; or
    ``--dataset-resampled``, with which every worker draws from all shards.
    """

    code = "P302"
    severity = "error"
    requires = ("P303",)

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        if not forecast.stalled or not forecast.usable or forecast.not_expanded:
            return
        more = len(forecast.stalled) - 1
        others = ""
        if more:
            verb = "does" if more == 1 else "do"
            others = f"; so {verb} {how_many(more, 'other worker')}"
        yield self.finding(
            f"{forecast.stalled[0]}{others}",
            count=len(forecast.stalled),
            fix=_sharing(context, arguments, forecast),
        )


class TooFewShards(TrainingRule):
    """The set has fewer shards than loader workers.

    What: without ``--dataset-resampled`` each shard goes to one worker of one rank. The set
    therefore needs at least ``--workers`` times ranks shards, and more if the workers should get
    about the same amount.

    Why it matters: OpenCLIP ends with "AssertionError: number of shards must be >= total workers".
    With ``--workers 0`` it does not check and starts, and a rank without a shard hangs. webdataset
    1.x raises "No samples found in dataset; perhaps you have fewer shards than workers".

    In practice: open_clip data.py:403; webdataset#65, #72; open_lm#111, #189; RobustVLM#29 (other
    results with other ``num_workers``).

    Fix: fewer workers; more, smaller shards; or ``--dataset-resampled``, which lets every worker
    draw from all shards.
    """

    code = "P303"
    severity = "error"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        if arguments.dataset_resampled or not forecast.shards:
            return
        if forecast.not_expanded:
            # P319 reports these.
            return
        total = arguments.world_size * max(1, arguments.workers)
        if forecast.shards >= total:
            return
        ends = "each worker needs one"
        if context.reader_named(forecast.reader).empty_stalls:
            ends = "ranks without a shard hang"
            if arguments.workers:
                ends = "OpenCLIP refuses to start"
        have = f"{how_many(forecast.shards, 'shard')} for {how_many(total, 'worker')}"
        split = f"{how_many(arguments.world_size, 'rank')} x {how_many(max(1, arguments.workers), 'worker')}"
        yield self.finding(f"{have} ({split}): {ends}", fix=_sharing(context, arguments, forecast))


class Imbalance(TrainingRule):
    """Some workers have far more to read than others.

    What: every worker gives the same number of batches per epoch, whatever its shards hold. The
    forecast distributed the shards as OpenCLIP does, and counted the usable samples.

    Why it matters: a worker with few samples repeats them within the epoch; a worker with many
    leaves out the rest. Samples in large shares are seen less often than those in small ones. One
    shard more or less makes no difference for a worker with hundreds of shards, and a factor of two
    for one with one or two.

    In practice: 43 shards on 8 GPUs with 4 workers each (open_clip#1093); RobustVLM#29;
    webdataset#71, #62.

    Fix: a number of shards that is a multiple of ranks times workers, or many times larger; shards
    of equal size; or ``--dataset-resampled``.
    """

    code = "P304"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        low, high = forecast.poorest, forecast.richest
        if (
            forecast.stalled
            or low is None
            or high is None
            or not low.usable
            or high.usable < _RATIO * low.usable
        ):
            return
        workers = arguments.world_size * max(1, arguments.workers)
        uneven = ""
        if forecast.shards % workers:
            uneven = f"; {forecast.shards:,} shards are not a multiple of {workers:,} workers"
        yield self.finding(
            f"usable samples per worker range from {low.usable:,} to {high.usable:,} in epoch 0: some samples are "
            f"used {high.usable / low.usable:.1f} times as often as others{uneven}",
            fix=flag_repair(
                "--dataset-resampled", note=", or shards of equal size in a suitable number"
            ),
        )


class ResampledLoss(TrainingRule):
    """Shards without usable samples are drawn again and again.

    What: with ``--dataset-resampled`` each worker draws shards with replacement, endlessly, and
    logs errors without stopping. Some of the shards that it can draw have no usable sample.

    Why it matters: the worker reads such a shard, silently drops everything, and draws again: each
    visit wastes time and bandwidth. If all shards are like this, no worker ever gives a batch, and
    no version of webdataset ends the loop, because the list of shards has no end.

    In practice: open_clip#480, PR#259, PR#328 (image types that the filter of that version did not
    know).

    Fix: leave these shards out of ``--train-data``, or repair them as the findings on the shards
    explain.
    """

    code = "P308"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        drawn = forecast.resampled
        if drawn is None or not drawn.dead_shards:
            return
        if forecast.stalled:
            if not context.usable_samples(forecast.reader):
                # P301 reports it.
                return
            message = "none of the shards has a usable sample: training hangs"
            yield self.finding(message, severity="error", count=drawn.dead_shards)
            return
        dead = f"{how_many(drawn.dead_shards, 'shard')} of {forecast.shards:,}"
        wasted = f"about {drawn.dead_shards / forecast.shards:.0%} of all draws are wasted"
        message = f"{dead} can be drawn and have no usable sample: {wasted}"
        yield self.finding(message, count=drawn.dead_shards)


class NeverDrawn(TrainingRule):
    """Resampling leaves many of the shards out of an epoch.

    What: with ``--dataset-resampled`` shards are drawn with replacement, each with the same
    probability, whatever its size. With n shards and d draws, the share (1 - 1/n)^d is not drawn on
    average: 37 % if d = n.

    Why it matters: an "epoch" is not a pass over the data. Over many epochs it evens out; over one
    or two, a third of the data is never seen while another part is seen several times. Samples of
    small shards are seen more often than those of large ones.

    In practice: webdataset#453, #310, #158.

    Fix: none is needed for many epochs. For one or two, train without ``--dataset-resampled`` (it
    needs shards >= workers x ranks).
    """

    code = "P324"
    severity = "info"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        drawn = forecast.resampled
        if drawn is None or not drawn.draws or drawn.never_seen < _UNSEEN_SHARE:
            return
        share = f"{drawn.never_seen:.0%} of the shards are not drawn in an epoch"
        if arguments.epochs > 1:
            in_all = drawn.never_seen**arguments.epochs
            share += f", {in_all:.1%} in all {arguments.epochs:,} epochs"
        draws = f"about {drawn.draws:,.0f} draws of {forecast.shards:,} shards per epoch"
        yield self.finding(f"on average {share} ({draws})")


class SlowStart(TrainingRule):
    """The first batch takes minutes, at every epoch.

    What: each worker fills its shuffle buffer with 1,000 raw samples (or all it has) before it
    gives the first one, and decodes a whole batch before it delivers it. The buffer is discarded at
    the end of every epoch.

    Why it matters: with samples of megabytes and many workers, gigabytes are read before the GPU
    has work, and again at each epoch. It looks like a stall but is not.

    In practice: open_clip#703 (pauses between epochs); webdataset#333, #267 (large images), #357.

    Fix: smaller images; longer and fewer epochs (``--train-num-samples`` may be several passes);
    fewer workers on slow storage; with OpenCLIP 4 a smaller OPENCLIP_WDS_SAMPLE_SHUFFLE_INITIAL.
    """

    code = "P325"
    severity = "info"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        needs = forecast.resources
        if needs is None or needs.first_batch is None or forecast.stalled:
            return
        fast, slow = needs.first_batch
        if slow < _SLOW_FIRST_BATCH:
            return
        members = sum(shard.member_bytes for shard in context.evidence.shards)
        mean = members / max(1, context.evidence.samples)
        seconds = f"{fast:,.0f} to {slow:,.0f} s"
        reads = f"{how_many(needs.raw_before_first, 'sample')} of {size(mean)}"
        workers = arguments.workers
        reader = f"each of {workers} workers"
        if workers < 2:
            # Without workers, the process that trains reads itself.
            reader = "the worker" if workers else "the process"
        yield self.finding(
            f"the first batch of each epoch comes after {seconds}: {reader} reads {reads} first"
        )


class OwnPipeline(Rule):
    """The pipeline of --pipeline loses samples, hangs, ends with an exception, or ends its process.

    What: the code named by ``--pipeline`` was run over the shards, in their order. The message has
    the stage at which samples were lost, the exception, the sample, and the line of the code.

    Why it matters: a stage with ``handler=wds.ignore_and_continue`` drops samples silently. A stage
    without a handler ends the run at the first sample that it cannot take, perhaps after hours.

    In practice: ``to_tuple("jpg", "json")`` where some samples have ``png``;
    ``sample["json"]["caption"]`` where some objects have no caption; ``select`` that never lets a
    sample through.

    Fix: change the stage that the message names; let it drop what it cannot take, with
    ``handler=wds.warn_and_continue``; repair the shards; or accept the loss with ``--max-loss``.
    """

    code = "P326"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        for verdict in context.verdicts:
            if verdict.reader != PIPELINE or verdict.outcome not in _OUTCOME_VERBS:
                continue
            if not verdict.usable and verdict.outcome != "crashes":
                # P301 reports it.
                continue
            first = verdict.reasons[0] if verdict.reasons else None
            why = f": {first.message}" if first else ""
            count = max(1, verdict.samples - verdict.usable)
            message = f"{verdict.title} {_OUTCOME_VERBS[verdict.outcome]}{why}"
            yield self.finding(
                message, [PIPELINE], first.shard if first else None, first, count=count
            )
