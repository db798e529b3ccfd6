"""Options of a training command that do not do what they seem to."""

from collections.abc import Iterator
from typing import ClassVar

from wdsflow.readers.installed_versions import version_conflicts
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.startup import CrashKind
from wdsflow.readers.open_clip.url_expansion import not_expanded, with_braces
from wdsflow.text.secrets import redact
from wdsflow.text.shell import Command, escape
from wdsflow.text.words import how_many

from ..finding import Finding, Repair
from ..forecast.forecast_result import Forecast
from .kit.base import Context, Rule
from .kit.pipes import CURL, how_failures_hide, without_pipe
from .kit.training_rules import TrainingRule, flag_repair, openclip_names

# An epoch is long from this multiple of the requested length on.
_LONG_EPOCH = 1.2
# Share of the samples by which a stated number may differ from the counted one.
_TOLERANCE = 0.1


class Versions(Rule):
    """Installed versions are known not to work together.

    What: two packages of this environment fail together as soon as training starts, whatever the
    shards are.

    Why it matters: OpenCLIP up to 4.2 with webdataset 0.2.95 or later ends with "KeyError: 'fname'"
    at the end of the first shard: webdataset marks it with an empty entry that OpenCLIP's grouping
    does not know. A torchvision built for another torch fails on import. Python 3.14 starts loader
    workers in a way for which OpenCLIP 3.3's pipeline cannot be pickled.

    In practice: open_clip#935, webdataset#384, UniMed-CLIP#2, dclm#62, gigapose#26, open_lm PR#302.

    Fix: the command in the finding. ``wdsflow doctor`` checks more than versions.
    """

    code = "P311"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        names = openclip_names(context)
        if not names:
            return
        for conflict in version_conflicts(context.environment):
            # Shards are often validated on machines that never
            # train: it is an error only with a training command.
            severity = conflict.severity if context.arguments is not None else "warning"
            fix = Repair(conflict.fix) if isinstance(conflict.fix, Command) else None
            yield self.finding(
                f"{conflict.versions}: {conflict.why}", names, severity=severity, fix=fix
            )


class LossyPipe(Rule):
    """A pipe: url hides failures.

    What: the command of a ``pipe:`` url can fail unnoticed: ``curl`` without ``-f`` (an error page
    becomes the shard), ``|| true`` (nothing becomes the shard), or several commands joined by
    ``|``, of which only the last one's exit status counts. ``aws s3 cp URL -``, ``gsutil cat URL``
    and ``gcloud storage cat URL`` are reported as information: no reader resumes them after a
    broken connection.

    Why it matters: webdataset reads the output of the command, and its exit status if it has ended
    by then. A page that says "404 Not Found" is not a tar: the shard's samples are missing, with at
    most one warning. At the next visit it may work again, so runs differ from each other.

    In practice: webdataset#2, #22 (error pages read as tars), #35, #112, #473 (broken pipes of
    ``aws s3 cp``), #308 (curl without a time limit hangs a worker).

    Fix: the url without a pipe, where the finding has it: ``wdsflow validate``, ``filter`` and
    ``train`` read it in parts, and repeat a part that fails. Otherwise
    ``pipe:curl -sSfL --retry 5 --connect-timeout 10 --max-time 600 URL``; before joined commands,
    ``set -o pipefail;`` under bash.
    """

    code = "P312"

    def check(self, context: Context) -> Iterator[Finding]:
        texts = list(context.urls)
        if context.arguments is not None:
            data = (context.arguments.train_data, context.arguments.val_data)
            texts += filter(None, data)
        # In their order, without repeats.
        urls: dict[str, None] = {}
        for text in texts:
            urls |= dict.fromkeys(map(redact, text.split("::")))
        for url in urls:
            if not url.startswith("pipe:"):
                continue
            command = url.removeprefix("pipe:")
            direct = without_pipe(command)
            problem = how_failures_hide(command)
            severity = self.severity
            if not problem and direct and not CURL.search(command):
                severity = "info"
                problem = (
                    "if the connection breaks, the rest of the shard is lost: a pipe is not resumed"
                )
            if not problem:
                continue
            fix: Repair | None = None
            if direct:
                fix = Repair(direct, note="wdsflow filter and train read this url, too")
            message = f"{escape(url)}: {problem}"
            yield self.finding(message, context.reader_names(), severity=severity, fix=fix)


class NoStep(TrainingRule):
    """Training never takes a step.

    What: ``--accum-freq`` is larger than the number of batches of an epoch. OpenCLIP collects that
    many batches before the optimizer steps, and starts again at every epoch.

    Why it matters: no epoch is long enough: all epochs pass in seconds without a step. OpenCLIP
    logs nothing, saves checkpoints of an untrained model, and ends with success.

    In practice: a configuration for a large set tried on a small one (open_clip_train/train.py, the
    ``continue`` before the step).

    Fix: a smaller ``--accum-freq`` or a smaller batch.
    """

    code = "P313"
    severity = "error"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        if forecast.length is not None and forecast.length.batches and not forecast.steps:
            batches = forecast.length.batches
            of_epoch = f"the {how_many(batches, 'batch', 'batches')} of an epoch"
            message = f"--accum-freq {arguments.accum_freq:,} is more than {of_epoch}: the optimizer never steps"
            fix = flag_repair("--accum-freq", str(batches), note=", the most that steps at all")
            yield self.finding(message, fix=fix)


class LongWarmup(TrainingRule):
    """The warm-up is longer than the training.

    What: ``--warmup`` counts steps, 10,000 by default. The whole training has fewer.

    Why it matters: the learning rate rises towards ``--lr`` and never reaches it: a run of 1,000
    steps ends at a tenth of it. The loss falls slowly, and other settings are blamed for it.

    In practice: ``--warmup 90000`` for a run of 43 shards (open_clip#1093); fine-tuning on small
    sets with the default.

    Fix: set ``--warmup`` to a tenth of all steps or less.
    """

    code = "P314"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        total = forecast.total_steps
        warmup = forecast.warmup
        if total and warmup > total:
            comparison = f"--warmup {warmup:,} is more than the {total:,} steps"
            effect = f"the learning rate ends at {total / warmup:.0%} of --lr"
            message = f"{comparison} of the whole training: {effect}"
            yield self.finding(message, fix=flag_repair("--warmup", str(max(1, total // 20))))


class LongEpoch(TrainingRule):
    """Rounding makes an epoch much longer than intended.

    What: OpenCLIP rounds the number of batches up twice: to whole batches of all ranks together,
    then to a multiple of the workers. With few samples, large batches and many workers this is a
    lot: 1,000 samples in batches of 256 with 8 workers become 2,048; 5,000 samples in batches of
    512 on 8 GPUs x 8 workers become 32,768.

    Why it matters: an epoch shows each sample several times. Steps, learning-rate schedule,
    checkpoints and comparisons "per epoch" are off by that factor.

    In practice: webdataset#303, #343, #282; small sets used to try a large configuration.

    Fix: fewer workers, a smaller batch, or fewer epochs by the factor in the message.
    """

    code = "P315"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        length = forecast.length
        if length is None or length.inflation < _LONG_EPOCH:
            return
        # Of all ranks together.
        batch = arguments.batch_size * arguments.world_size
        samples = "sample" if length.requested == 1 else "samples"
        becomes = f"becomes {length.samples:,} ({length.inflation:.2f} times as long)"
        workers = how_many(max(1, arguments.workers), "worker")
        parts = f"{length.worker_batches:,} x {workers} x {batch:,}"
        message = f"an epoch of {length.requested:,} {samples} {becomes}: rounded up to {parts}"
        fix: Repair | None = None
        if arguments.workers > 1 and _rounded_up(int(length.requested), batch) < length.samples:
            fix = flag_repair("--workers", "1", note=", which rounds to whole batches only")
        yield self.finding(message, fix=fix)


def _rounded_up(samples: int, batch: int) -> int:
    """Return the samples of as many whole batches as hold some samples."""
    return batch * -(-samples // batch)


class EmptyValidation(TrainingRule):
    """The validation set is missing, or a part of it.

    What: some or all of the shards of ``--val-data`` cannot be read, or more than 5 % of their
    samples are not usable.

    Why it matters: OpenCLIP passes over what it cannot read: the figures are those of the rest, and
    cannot be compared with those of other runs. If nothing is left, OpenCLIP 3.3 evaluates on rank
    0 after the first epoch, gets no sample, and ends with "torch.cat(): expected a non-empty list
    of Tensors", while the other ranks wait at a barrier until NCCL gives up. That may be hours into
    the run. OpenCLIP 4 skips the evaluation: no figures, and no message.

    In practice: open_clip train.py:317 and main.py:505; val sets in another layout than the
    training set.

    Fix: the same as for training data: validate the val shards too, ``wdsflow validate VAL_URL``.
    """

    code = "P317"
    severity = "error"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        if forecast.validation:
            yield self.finding(
                forecast.validation, severity="error" if forecast.validation_crash else "warning"
            )


class CrashRule(TrainingRule):
    """A rule about a command that ends before the first batch, for one kind of reasons."""

    severity = "error"
    kind: ClassVar[CrashKind]

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        if forecast.crash and forecast.crash_kind == self.kind and not forecast.not_expanded:
            yield self.finding(forecast.crash, fix=self.setting(context, arguments, forecast))

    def setting(self, context: Context, arguments: Arguments, forecast: Forecast) -> Repair | None:
        """Return the flag with which the command runs, if one flag does."""
        return None


class UnknownDatasetType(CrashRule):
    """OpenCLIP cannot determine the type of the data.

    What: ``--dataset-type`` is "auto", which looks at the extension of ``--train-data`` or
    ``--val-data`` and knows csv, tsv and tar. Here it is something else: ``x.tar.gz``, a folder,
    ``pipe:... -``, ``x.tar?download=true``.

    Why it matters: it ends at once with "ValueError: Tried to figure out dataset type, but failed
    for extension".

    In practice: bioclip#30 and others who read compressed shards or signed urls.

    Fix: ``--dataset-type webdataset``. Compressed shards are then read like others, only slower.
    """

    code = "P318"
    kind = "dataset-type"

    def setting(self, context: Context, arguments: Arguments, forecast: Forecast) -> Repair | None:
        return flag_repair("--dataset-type", "webdataset")


class UnreadableUrls(Rule):
    """OpenCLIP cannot expand --train-data or --val-data as it is written.

    What: OpenCLIP knows braces ``{000..042}``, ``::`` between sources and ``${NAME}`` for the
    environment variable WDS_NAME. It knows no globs, no folders, no ``~``, no ``@list.txt`` and no
    space between urls. wdsflow reads those. wdsflow also reads a file whose name has braces,
    ``t{1..2}.tar``, where OpenCLIP looks for t1.tar and t2.tar.

    Why it matters: ``shards/*.tar`` is taken for one shard of that name, which does not exist: a
    warning, no sample, and the workers start again endlessly; the verdict says so. Two ranges with
    a space between them multiply: ``"/a/{1..10} /b/{1..10}"`` stands for 100 names, none of which
    exists. Without quotes the shell expands the braces itself, and argparse refuses the rest.

    In practice: open_clip#84 (cross product), #278 (10^16 urls); webdataset#170, #156, #415;
    diffusers#5743 (a folder); clip-retrieval#245 (unquoted braces: only the first tar was read).

    Fix: ``--train-data "shards/{000..042}.tar"``, in quotes, ``::`` between several patterns. The
    finding has the pattern that names the shards.
    """

    code = "P319"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        arguments = context.arguments
        if arguments is None or arguments.dataset_type not in ("auto", "webdataset"):
            return
        options = {"--train-data": arguments.train_data, "--val-data": arguments.val_data}
        for option, data in options.items():
            for pattern, why in not_expanded(data).items():
                braces = with_braces(data or "")
                fix = flag_repair(option, braces) if braces else None
                yield self.finding(
                    f"{option} {escape(pattern)}: {why}", openclip_names(context), fix=fix
                )


class Upsampling(CrashRule):
    """The upsampling factors do not fit the sources.

    What: ``--train-data-upsampling-factors`` needs one number for each source of ``--train-data``,
    ``::`` between them, at least one above 0, and ``--dataset-resampled``.

    Why it matters: OpenCLIP ends with an AssertionError or ValueError before the first batch.

    In practice: a source added to ``--train-data`` and not to the factors. Also, with factors
    ``${NAME}`` is not expanded, and a factor is the weight of a *shard*: sources with more shards
    are drawn more often.

    Fix: as many factors as sources: ``--train-data "a/{00..09}.tar::b/{00..99}.tar"
    --train-data-upsampling-factors 10::1 --dataset-resampled``.
    """

    code = "P320"
    kind = "weights"

    def setting(self, context: Context, arguments: Arguments, forecast: Forecast) -> Repair | None:
        return None if arguments.dataset_resampled else flag_repair("--dataset-resampled")


class WrongNumSamples(TrainingRule):
    """The number of samples per epoch differs from that of the shards.

    What: ``--train-num-samples``, or the count next to the shards, differs by more than a tenth
    from the number of usable samples.

    Why it matters: OpenCLIP never counts. If the number is too large, every epoch repeats samples;
    if it is too small, each epoch sees only the first part of a new order. Either way, epochs, the
    learning-rate schedule and comparisons with other runs are misleading.

    In practice: the number of another set pasted with the command (open_clip#1016, #899); the count
    before filtering or before failed downloads; open_clip#993, #555; datacomp#48, #55, where it is
    done on purpose.

    Fix: the number in the message, if an epoch is to be one pass.
    """

    code = "P321"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        length = forecast.length
        usable = forecast.usable
        if length is None or not usable:
            return
        if abs(length.requested - usable) > _TOLERANCE * usable:
            epoch = f"an epoch is set to {how_many(length.requested, 'sample')} ({forecast.length_source})"
            message = f"{epoch}, but {usable:,} are usable: {length.requested / usable:,.2f} passes"
            yield self.finding(message, fix=flag_repair("--train-num-samples", str(usable)))


class NoSampleCount(TrainingRule):
    """OpenCLIP cannot find the number of samples.

    What: ``--train-num-samples`` is missing, and next to the first shard is neither a
    ``sizes.json`` nor a ``__len__`` that OpenCLIP can use. For urls and pipes it never looks.

    Why it matters: it ends with "RuntimeError: Currently, the number of dataset samples must be
    specified for the training dataset", or with the error that reading the file raises.

    In practice: open_flamingo#206; LAION-Face#11; open_clip PR#482, PR#339.

    Fix: ``--train-num-samples`` with the number of usable samples. ``wdsflow repair`` writes
    sizes.json next to its output.
    """

    code = "P322"
    severity = "error"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        if not forecast.crash or forecast.crash_kind != "samples":
            return
        facts = context.sidecars.facts if context.sidecars is not None else ()
        has_bad_file = any(fact.problem != "stale" for fact in facts)
        if has_bad_file and not forecast.crash.startswith("RuntimeError"):
            # P305 names the file.
            return
        fix: Repair | None = None
        usable = context.usable_samples(forecast.reader)
        if usable:
            fix = flag_repair("--train-num-samples", str(usable))
        yield self.finding(forecast.crash, fix=fix)


class CommandFails(CrashRule):
    """The training command ends with an exception.

    What: an exception before the first batch, or at the first bad sample, for a reason that has no
    separate rule: a variable in ``--train-data`` that is not set, unbalanced braces,
    ``--train-num-samples 0``, a sample at which the reader raises an error.

    Why it matters: the run ends; with several ranks, one ends and the others wait for it.

    In practice: ``${BUCKET}`` in ``--train-data`` stands for the environment variable WDS_BUCKET,
    not BUCKET.

    Fix: follow the message.
    """

    code = "P323"
    # The other kinds have rules: P303, P318, P320, P322.
    kind = "other"
