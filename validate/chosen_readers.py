"""The readers that are judged, and the level at which shards are read for them."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from wdsflow.engines.base import check_engine
from wdsflow.readers import READERS, resolve, scan_options
from wdsflow.readers.base import Options, Reader
from wdsflow.readers.installed_versions import versions
from wdsflow.readers.open_clip.arguments import Arguments, ArgumentsError, parse_arguments
from wdsflow.scan.evidence import Level, ScanOptions
from wdsflow.shards.shard import Shard
from wdsflow.stages.caption_sources import parse_captions

from .check_options import CheckOptions
from .feed_verdict import feed_reader

# Bytes of shards that are decoded without being asked to: some seconds on one core.
_MOST_DECODED = 64 << 20
# Bytes of a tar.
_SMALLEST = 10 << 10


class ChosenReaders(NamedTuple):
    """The readers of a check, with the options that a training command gives them."""

    readers: list[Reader]
    # The training command; None if there is none.
    arguments: Arguments | None


def chosen_readers(
    requested: Sequence[str], training: Sequence[str] | None, world_size: int
) -> ChosenReaders:
    """Return readers by their names.

    The readers of some names, such as open-clip, depend on the installed versions.

    Args:
        requested: names, as for ``check``.
        training: command line of open_clip_train.
        world_size: number of ranks.

    Raises:
        UnknownReader, ArgumentsError: no such reader, or a command line that is none.
    """
    environment = versions()
    # In their order, without repeats.
    names: dict[str, None] = {}
    for name in requested:
        names |= dict.fromkeys(resolve(name, environment))
    if training is None:
        # How ranks divide shards depends on their workers, which only the training command states.
        return ChosenReaders([READERS[name](Options()) for name in names], None)
    classes = [READERS[name] for name in names]
    arguments = parse_arguments(training, world_size=world_size, readers=classes)
    return ChosenReaders([reader(arguments.options(reader)) for reader in classes], arguments)


def feed_of(training: Sequence[str] | None, world_size: int, caption: str | None) -> ChosenReaders:
    """Return wdsflow's feed, the only reader that joins tables, for a training command.

    ``caption``: the feed's own option ``--caption``. Raises ArgumentsError.
    """
    captions = None if caption is None else parse_captions(caption)
    if training is None:
        return ChosenReaders([feed_reader(None, captions)], None)
    arguments = parse_arguments(training, world_size=world_size)
    if arguments.use_naflex:
        raise ArgumentsError("--use-naflex cannot be combined with a table that is joined")
    return ChosenReaders([feed_reader(arguments, captions)], arguments)


def readers_of(
    options: CheckOptions, level: Level, urls: Sequence[Shard]
) -> tuple[list[Reader], ScanOptions]:
    """Return the readers of a check without a training command, and the scan options.

    Raises UnknownReader.
    """
    check_engine(options.engine, options.address)
    readers = chosen_readers(options.readers, None, options.world_size).readers
    return readers, scan_options(level, readers, urls, allow_pipe=False)


def level_for(options: CheckOptions, urls: Sequence[Shard]) -> Level:
    """Return the level at which shards are read.

    For "auto" it is "full" if that takes a few seconds at most, otherwise "headers".
    """
    if options.level != "auto":
        return options.level
    if options.pipeline is not None or len(urls) > _MOST_DECODED // _SMALLEST:
        return "headers"
    paths = [url.path for url in urls]
    if None in paths:
        return "headers"
    sizes = [os.path.getsize(path) for path in paths if path is not None and os.path.isfile(path)]
    return "full" if sum(sizes) <= _MOST_DECODED else "headers"
