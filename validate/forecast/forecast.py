"""What a training command will do with the shards: its epochs, its workers, and whether it hangs.

The arithmetic is OpenCLIP's own (startup.py, versions.py); the forecast names what cannot be known
in advance.
"""

from collections.abc import Sequence
from dataclasses import replace

from wdsflow.readers.base import Reader
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.sidecars import Sidecars
from wdsflow.readers.open_clip.startup import Start, simulate_start
from wdsflow.readers.open_clip.url_expansion import not_expanded
from wdsflow.readers.open_clip.versions import EpochLength, FeedReader, OpenClip33, epoch_length
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.shards.source.base import single_shard

from .dealt_shards import with_dealt_shards
from .drawn_shards import with_drawn_shards
from .forecast_result import Forecast
from .named_shards import named_shards, unreadable_shard
from .validation_shards import judge_validation
from .worker_passes import ShardPasses


def forecast(
    evidence: Evidence,
    reader: Reader,
    arguments: Arguments,
    sidecars: Sidecars | None = None,
    *,
    validation: Evidence | None = None,
) -> Forecast:
    """Forecast what a training command will do with the shards.

    Args:
        evidence: evidence of the training shards, in the order of the urls.
        reader: OpenCLIP, or wdsflow's feed for its command; the forecast of any other does not
            apply.
        arguments: the training command.
        sidecars: files next to the shards.
        validation: the same for the shards of ``--val-data``, if they were scanned.
    """
    base = _settings(reader, arguments)
    foreign = _why_unsupported(arguments)
    if foreign or not isinstance(reader, OpenClip33) or not evidence.shards:
        note = foreign or "only OpenCLIP's loader is forecast"
        return replace(base, applies=False, exact=False, notes=(note,))
    started = simulate_start(arguments, [shard.url for shard in evidence.shards], sidecars)
    is_feed = isinstance(reader, FeedReader)
    pattern = ""
    if not is_feed:
        # OpenCLIP takes such a pattern for the name of a shard.
        pattern = next(iter(not_expanded(arguments.train_data)), "")
    listed = named_shards(started.urls, evidence, literally=bool(pattern))
    shards = _as_opened(listed.shards, started.urls, reader)
    base = replace(base, not_expanded=pattern, shards=len(shards))
    notes = [listed.note] if listed.note else []
    if started.crash is not None:
        return replace(base, crash=started.crash, crash_kind=started.crash_kind, notes=tuple(notes))
    base, length = _with_length(base, arguments, started)
    problem, ends_training = judge_validation(arguments, reader, validation)
    base = replace(base, validation=problem, validation_crash=ends_training)
    passes = ShardPasses(reader, shards, listed.unknown)
    if arguments.dataset_resampled:
        expected = with_drawn_shards(base, passes, arguments, started, length)
    else:
        expected = with_dealt_shards(base, passes, arguments, length)
    if is_feed:
        # It has no workers, shuffles in memory that it limits, and needs no /dev/shm.
        expected = replace(expected, resources=None)
    inexact = _why_inexact(arguments, evidence, is_feed=is_feed)
    if inexact:
        notes.append(inexact)
    is_exact = expected.exact and evidence.level == "full" and not listed.note
    return replace(expected, exact=is_exact, notes=tuple(notes))


def _settings(reader: Reader, arguments: Arguments) -> Forecast:
    """Return a forecast with what the command alone says."""
    return Forecast(
        reader.name,
        workers=arguments.workers,
        world_size=arguments.world_size,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        accum_freq=arguments.accum_freq,
        warmup=0 if arguments.skip_scheduler else arguments.warmup,
    )


def _with_length(
    base: Forecast, arguments: Arguments, started: Start
) -> tuple[Forecast, EpochLength]:
    """Return a forecast with the length of an epoch, and that length."""
    assert started.samples is not None
    length = epoch_length(
        started.samples, arguments.batch_size, arguments.world_size, arguments.workers
    )
    steps = length.batches // arguments.accum_freq
    return replace(base, length=length, length_source=started.source, steps=steps), length


def _why_inexact(arguments: Arguments, evidence: Evidence, *, is_feed: bool) -> str:
    """Return a note on why a forecast is inexact, and how to make it exact.

    Returns "" if there is nothing to note.
    """
    if arguments.seed < 0 and not arguments.dataset_resampled:
        return (
            "with a negative --seed each worker shuffles the shards by a different seed: not exact"
        )
    # The check before training has no levels.
    if evidence.level != "full" and not is_feed:
        return "contents were not decoded: --level full makes the counts exact"
    return ""


def _as_opened(
    shards: Sequence[ShardEvidence], urls: Sequence[str] | None, reader: Reader
) -> list[ShardEvidence]:
    """Return the shards of a command as the reader opens them: some cannot be reached by it.

    Those that stand in for the shards of the command stay as they are: how it opens its own is
    another question.
    """
    unreached = {url for url in map(single_shard, urls or ()) if reader.why_not_opened(url)}
    return [unreadable_shard(shard.url) if shard.url in unreached else shard for shard in shards]


def _why_unsupported(arguments: Arguments) -> str:
    """Return why a command does not read shards in the known way, "" if it does."""
    kind = arguments.dataset_type
    if kind == "auto" and (arguments.train_data or "").split(".")[-1] in {"csv", "tsv"}:
        kind = "csv"
    if kind not in {"auto", "webdataset"}:
        return f"--dataset-type {kind} does not read image shards"
    if arguments.val_data and not arguments.train_data:
        return "without --train-data OpenCLIP only evaluates"
    if not arguments.epochs:
        return "--epochs 0 trains nothing"
    if arguments.use_naflex:
        return "--use-naflex plans its batches differently"
    return ""
