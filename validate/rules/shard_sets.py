"""Incomplete sets of shards, wrong files next to them, and machines with too little memory."""

import os
from collections.abc import Iterator, Sequence
from typing import Literal

from wdsflow.indexing.index_options import KINDS
from wdsflow.indexing.index_record import IndexLine
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.sidecar_facts import SidecarFact
from wdsflow.records.lines_file import is_as_written
from wdsflow.text.shell import escape, quote_path
from wdsflow.text.words import how_many, size

from ..finding import Finding, Repair
from ..forecast.forecast_result import Forecast
from .kit.base import Context, Rule
from .kit.training_rules import TrainingRule, flag_repair, openclip_names

_SIDECAR_PROBLEMS = {
    "missing": "",
    "malformed": "cannot be read: ",
    "stale": "does not agree with the shards: ",
    "gone": "lists ",
    "orphaned": "has files of shards that are not there: ",
}
# Files that a command removes by name.
_REMOVED = 20
# Names in a message.
_MOST_NAMES = 3
# What to do with files next to shards: "index" if wdsflow wrote them.
_FixMethod = Literal["index", "restart", "remove"]


class WrongSidecar(Rule):
    """A file next to the shards, with their number of samples or an index, is wrong.

    What: ``sizes.json``, ``__len__``, ``NNNNN_stats.json``, or an index of timm (``_info.json``) or
    Energon (``.nv-meta``, ``.tar.idx``) does not parse, does not list all shards, lists shards that
    are not there, or has other counts or offsets than the shards. Or a file of a single shard is
    there without the shard.

    Why it matters: without ``--train-num-samples`` OpenCLIP takes the length of an epoch, and from
    it the learning-rate schedule, from sizes.json or ``__len__`` next to the *first* shard. If a
    shard is not listed, OpenCLIP ends with a KeyError; if the file is broken, with a
    JSONDecodeError. Stale counts make every epoch too long or too short. With an index whose
    offsets are wrong, Energon reads bytes from the middle of other members. A reader that takes the
    list of shards from its index fails at a shard that is not there; img2dataset takes a shard with
    stats for done, and does not download it again.

    In practice: shards filtered or copied without their sizes.json; a damaged shard deleted by
    hand; ``--train-num-samples`` pasted from another set (open_clip#1016, #899); open_flamingo#206;
    two folders with equal base names, of which OpenCLIP counts the first twice.

    Fix: if a shard is missing by mistake, copy it back. Otherwise write the files again:
    ``wdsflow index URL... --sizes --len --restart``, with an option for each kind of file. Or
    delete them and give ``--train-num-samples``.
    """

    code = "P305"

    def check(self, context: Context) -> Iterator[Finding]:
        if context.sidecars is None:
            return
        # OpenCLIP raises because of a file with counts.
        has_crash = any(forecast.crash_kind == "samples" for forecast in context.forecasts)
        fixes = _fixes(context.sidecars.facts)
        for fact in context.sidecars.facts:
            has_counts = fact.path.endswith(("sizes.json", "__len__"))
            is_unreadable = fact.problem in ("missing", "malformed")
            is_error = has_crash and has_counts and is_unreadable
            yield self.finding(
                f"{fact.path} {_SIDECAR_PROBLEMS[fact.problem]}{fact.detail}",
                openclip_names(context),
                count=fact.shards,
                severity="error" if is_error else self.severity,
                fix=fixes.get(fact),
            )


def _fixes(facts: Sequence[SidecarFact]) -> dict[SidecarFact, Repair]:
    """Return the commands that fix wrong files next to shards.

    They write the files again, all kinds of a folder at once, or remove those without a shard.
    """
    groups: dict[tuple[str, _FixMethod], list[SidecarFact]] = {}
    for fact in facts:
        if fact.files:
            groups.setdefault((fact.folder, _method(fact)), []).append(fact)
    fixes = {}
    for (folder, method), group in groups.items():
        for fact in group:
            if method == "remove":
                fixes[fact] = _removal(folder, fact.files)
            else:
                fixes[fact] = _writing(folder, group, restart=method == "restart")
    return fixes


def _method(fact: SidecarFact) -> _FixMethod:
    if is_as_written(fact.folder, "index", IndexLine, fact.files):
        # wdsflow wrote the files: the command also removes those that have no shard.
        return "index"
    return "remove" if fact.problem == "orphaned" else "restart"


def _removal(folder: str, files: Sequence[str]) -> Repair:
    """Return the command that removes files without a shard."""
    paths = [quote_path(os.path.join(folder, name)) for name in files[:_REMOVED]]
    note = f"the first {_REMOVED} of {len(files):,}" if len(files) > _REMOVED else ""
    return Repair(" ".join(["rm", *paths]), note=note)


def _writing(folder: str, facts: Sequence[SidecarFact], *, restart: bool) -> Repair:
    """Return the command that writes files next to shards again.

    ``restart``: also those that wdsflow did not write.
    """
    kinds = [kind for kind in KINDS if any(kind in fact.kinds for fact in facts)]
    words = ["wdsflow index", quote_path(folder), *(f"--{kind}" for kind in kinds)]
    if not restart:
        return Repair(" ".join(words))
    command = " ".join([*words, "--restart"])
    if "energon" not in kinds:
        return Repair(command)
    return Repair(command, safe=False, note="also writes dataset.yaml and split.yaml again")


class Gaps(Rule):
    """Numbers are missing in the series of shards.

    What: shards are numbered, and some numbers in the middle have no file; or a brace range such as
    ``{000000..000324}`` names files that do not exist.

    Why it matters: OpenCLIP logs a warning for each missing shard on every visit and continues. An
    off-by-one in the range, or an unfinished download, shows only in fewer samples. A worker that
    gets only missing shards never fills a batch, and training hangs. webdataset without a handler
    ends with FileNotFoundError.

    In practice: ranges that are one too long (open_clip#480); img2dataset#174 (failed shards leave
    gaps, which end training); PixelRAG#47.

    Fix: copy or download the missing shards, or name those that exist: a glob in quotes for
    wdsflow; for OpenCLIP several ranges, ``{000..041}.tar::{043..107}.tar``.
    """

    code = "P306"

    def check(self, context: Context) -> Iterator[Finding]:
        for gap in context.evidence.gaps:
            names = ", ".join(escape(name, 60) for name in gap.missing[:_MOST_NAMES])
            if gap.count > _MOST_NAMES:
                names += f" and {gap.count - _MOST_NAMES:,} more"
            message = f"{escape(gap.pattern)}: {how_many(gap.count, 'shard')} missing: {names}"
            yield self.finding(message, context.reader_names(), count=gap.count)


class HalfDownload(Rule):
    """The download or the command that writes these shards did not finish.

    What: img2dataset writes ``NNNNN_stats.json`` when a shard is finished. Some shards of a folder
    have one, but these have none. Or ``wdsflow filter``, ``repair``, ``reshard``, ``graft`` or
    ``pack`` wrote the folder, and ended before all shards were written: the disk was full, or the
    command was interrupted or killed.

    Why it matters: a shard without a stats file is short, or cut in the middle of a sample, which
    readers often do not notice (W001). On the next run, img2dataset takes a shard for done if its
    stats file exists, and writes the others again. Each shard that wdsflow has written is whole,
    but others are missing. Training on them would train on a part of the data, for epochs that are
    too short.

    In practice: img2dataset#452, #358; training sets with a few shards of 1 KB; a full disk in the
    last hour of a job.

    Fix: run img2dataset again with ``--incremental_mode incremental``, or leave these shards out.
    The same wdsflow command resumes its run; shards that are finished are kept.
    """

    code = "P307"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        if context.sidecars is None:
            return
        for name, folder in context.sidecars.folders.items():
            shown = escape(name or ".")
            run = folder.unfinished
            if run is not None:
                most = f" (at most {run.shards:,})" if run.shards else ""
                state = f"{run.title} did not finish, or still runs: not all of its shards{most} are written"
                command = run.command_from_here(run.command_words)
                yield self.finding(
                    f"{shown}: {state}; the same command resumes it",
                    context.reader_names(),
                    fix=Repair(command) if command else None,
                )
            missing = folder.without_stats
            if missing:
                names = ", ".join(escape(base, 60) for base in missing[:_MOST_NAMES])
                if len(missing) > _MOST_NAMES:
                    names += ", ..."
                shards = f"{how_many(len(missing), 'shard')} without _stats.json ({names})"
                others = f"{len(folder.stats):,} with one: their download was not finished"
                message = f"{shown}: {shards}, next to {others}"
                yield self.finding(message, context.reader_names(), count=len(missing))


class ShuffleMemory(TrainingRule):
    """The shuffle buffers need more memory than is free.

    What: every loader worker keeps up to 5,000 samples, undecoded, to shuffle them: 5,000 x bytes
    per sample x workers x processes per machine. wdsflow compares that with the free memory of this
    machine (or container).

    Why it matters: the buffers fill within minutes; then the kernel kills a worker, and torch
    reports "DataLoader worker (pid ...) is killed by signal: Killed". Samples of 20 KB need 100 MB
    per worker, those of 2 MB need 10 GB.

    In practice: webdataset#256, #357, #325, #17; open_clip#845.

    Fix: fewer workers; smaller images (at 224 x 224 most of their pixels are discarded); with
    OpenCLIP 4 a smaller buffer by the environment variable OPENCLIP_WDS_SAMPLE_SHUFFLE_SIZE.
    """

    code = "P310"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        needs = forecast.resources
        if needs is None or needs.shuffle_bytes is None or needs.available_bytes is None:
            return
        if needs.shuffle_bytes <= needs.available_bytes:
            return
        fit = arguments.workers * needs.available_bytes // needs.shuffle_bytes
        yield self.finding(
            f"the shuffle buffers of a machine grow to {size(needs.shuffle_bytes)}, and "
            f"{size(needs.available_bytes)} are free here",
            fix=flag_repair("--workers", str(fit), note=", if it runs on this machine")
            if fit
            else None,
        )


class SharedMemory(TrainingRule):
    """Batches need more shared memory than /dev/shm has.

    What: workers pass batches through /dev/shm, and torch keeps two of each worker ready: 2 x
    workers x batch x (3 x height x width x 4 bytes for images, 8 bytes for each token), times the
    processes per machine. wdsflow compares that with the size of /dev/shm here.

    Why it matters: "RuntimeError: DataLoader worker (pid ...) is killed by signal: Bus error. It is
    possible that dataloader's workers are out of shared memory." Docker gives a container 64 MB by
    default; a batch of 256 images of 224 x 224 is 154 MB.

    In practice: pytorch#5040; streaming#493; Protenix#2.

    Fix: ``docker run --shm-size=16g`` or ``--ipc=host``; in Kubernetes an emptyDir with
    ``medium: Memory`` at /dev/shm; or fewer workers.
    """

    code = "P316"

    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterator[Finding]:
        needs = forecast.resources
        if needs is None or needs.shm_total is None or needs.shm_bytes <= needs.shm_total:
            return
        fit = arguments.workers * needs.shm_total // needs.shm_bytes
        height, width = needs.image_size
        workers = arguments.workers * arguments.local_world_size
        message = (
            f"batches ({height} x {width} pixels) of {how_many(workers, 'worker')} of a machine take "
            f"{size(needs.shm_bytes)} in /dev/shm, which has {size(needs.shm_total)} here"
        )
        fix: Repair | None = None
        if fit:
            fix = flag_repair("--workers", str(fit), note=", or give the container more")
        yield self.finding(message, fix=fix)
