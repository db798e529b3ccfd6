"""Checks before a training command starts whether its shards would starve the feed."""

import time
from collections.abc import Sequence
from dataclasses import replace

from wdsflow.readers.open_clip.arguments import (
    Arguments,
    ArgumentsError,
    names_shards,
    parse_arguments,
)
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions

from .judged_data import judge_data
from .preflight_outcome import Preflight, Refusal
from .preflight_report import result_of
from .scanned_data import BeginProgress, scan_data

__all__ = ["Preflight", "preflight"]


def preflight(
    argv: Sequence[str],
    options: FeedOptions | None = None,
    *,
    world_size: int = 1,
    progress: BeginProgress | None = None,
    dry_run: bool = False,
) -> Preflight | None:
    """Check the shards of a training command by name, and that wdsflow's feed can read them.

    Only the names in the shards are read.

    Args:
        argv: open_clip_train's arguments.
        options: settings of the feed.
        world_size: ranks that will train.
        progress: called with the number and the name of the shards; its result is called after each
            shard.
        dry_run: the reports will be shown, so the lines omit the command for them; commands only
            check the shards, too.

    Returns:
        None if the command trains on no shards, or if open_clip_train itself refuses it.
    """
    options = replace(options or FeedOptions(), argv=tuple(argv), dry_run=dry_run)
    try:
        arguments = parse_arguments(argv, world_size=world_size)
    except ArgumentsError:
        return None
    if not _reads_shards(arguments):
        return None
    result = _check(arguments, options, progress, trains=True)
    if not arguments.val_data or result.refused:
        return result
    # Evaluation comes after an epoch of training: too late to report this error.
    evaluation = replace(arguments, train_data=arguments.val_data, dataset_resampled=False)
    if not _reads_shards(evaluation):
        return result
    return result.followed_by(_check(evaluation, options, progress, trains=False))


def _reads_shards(arguments: Arguments) -> bool:
    """Return whether the feed reads the data: shards, for batches other than NaFlex's."""
    return names_shards(arguments.train_data, arguments.dataset_type) and not arguments.use_naflex


def _check(
    arguments: Arguments, options: FeedOptions, progress: BeginProgress | None, *, trains: bool
) -> Preflight:
    """Check the shards that ``arguments.train_data`` names: for training, or for evaluation."""
    started = time.perf_counter()
    title = "preflight" if trains else "preflight of --val-data"
    try:
        data = scan_data(arguments, options, progress, trains=trains)
    except Refusal as refusal:
        return refusal.result(title)
    judged = judge_data(data, arguments, options, trains=trains)
    head = f"{title}: {how_many(len(data.evidence.shards), 'shard')}"
    if not data.all_scanned:
        head += f" of {data.shards:,}"
    result = result_of(judged, head, time.perf_counter() - started)
    notes = [f"{title}: {line}" for line in (data.kept, *data.join_lines) if line]
    return replace(result, lines=(*notes, *result.lines))
