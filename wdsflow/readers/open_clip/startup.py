"""The start of open_clip_train up to the first batch.

Its steps, in the order in which they raise: get_data, get_dataset_fn, expand_urls, get_dataset_size
and get_wds_dataset of open_clip_train/data.py, which are alike in 3.3.0 and 4.x.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from wdsflow.text.secrets import redact
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .arguments import Arguments, names_shards
from .sidecars import FolderCounts, Sidecars
from .url_expansion import openclip_urls, weighted_urls

CrashKind = Literal["shards", "samples", "dataset-type", "weights", "other"]

_MOST_URLS = 1_000_000
# OpenCLIP divides it as a float.
_MOST_SAMPLES = 1e300


@dataclass(frozen=True, slots=True)
class Start:
    """How open_clip_train starts."""

    # The exception that ends it, with the reason.
    crash: str | None = None
    # The subject of the exception.
    crash_kind: CrashKind = "other"
    samples: int | float | None = None
    # Of that number.
    source: str = ""
    # Of the training data; None if the command does not name them.
    urls: tuple[str, ...] | None = None
    # Of the urls, with upsampling factors.
    weights: tuple[float, ...] | None = None


class StartupCrash(Exception):
    """An exception that open_clip_train raises before its first batch."""

    def __init__(self, text: str, kind: CrashKind = "other") -> None:
        super().__init__(text)
        self.kind: CrashKind = kind


def simulate_start(
    arguments: Arguments, scanned: Sequence[str], sidecars: Sidecars | None
) -> Start:
    """Return the number of samples in OpenCLIP's epoch, or the exception with which it ends.

    Args:
        arguments: the training command.
        scanned: the shards, if the command does not name them.
        sidecars: the files next to the shards.
    """
    urls: tuple[str, ...] | None = None
    weights: tuple[float, ...] | None = None
    factors = arguments.train_data_upsampling_factors
    try:
        _check_type("--train-data", arguments.train_data, arguments.dataset_type)
        samples: int | float
        if arguments.train_num_samples is not None:
            samples = arguments.train_num_samples
            source = "--train-num-samples"
        else:
            urls = _expanded(arguments.train_data)
            samples, source = dataset_size(urls or scanned, sidecars or Sidecars())
        if factors is not None and not arguments.dataset_resampled:
            needed = "--train-data-upsampling-factors works with --dataset-resampled only"
            raise StartupCrash(f"AssertionError: {needed}", "weights")
        if arguments.train_data and factors is not None:
            urls, weights = _weighted(arguments.train_data, factors)
        else:
            urls = _expanded(arguments.train_data)
        _check_workers(len(urls or scanned), arguments)
        _check_type("--val-data", arguments.val_data, arguments.dataset_type)
        if names_shards(arguments.val_data, arguments.dataset_type):
            _expanded(arguments.val_data, "--val-data")
        _check_samples(samples, source)
    except StartupCrash as crash:
        return Start(crash=str(crash), crash_kind=crash.kind, urls=urls)
    return Start(samples=samples, source=source, urls=urls, weights=weights)


def dataset_size(urls: Sequence[str], sidecars: Sidecars) -> tuple[int | float, str]:
    """Return the number of samples that get_dataset_size reads, and its source.

    It reads the files next to the first shard. Raises StartupCrash if they give no usable number.
    """
    folder = sidecars.folders.get(os.path.dirname(urls[0])) or FolderCounts()
    if folder.sizes_error:
        raise StartupCrash(
            f"{folder.sizes_error}, reading sizes.json next to the first shard", "samples"
        )
    if folder.sizes is not None:
        return _total(urls, folder.sizes), "sizes.json"
    if folder.length is None:
        if folder.length_error:
            raise StartupCrash(
                f"{folder.length_error}, reading __len__ next to the first shard", "samples"
            )
        missing = "RuntimeError: no --train-num-samples, and neither sizes.json nor __len__ next to the first shard"
        raise StartupCrash(missing, "samples")
    if not folder.length:
        raise StartupCrash("RuntimeError: __len__ next to the first shard says 0", "samples")
    return folder.length, "__len__"


def _total(urls: Sequence[str], sizes: Mapping[str, object]) -> int:
    """Return the sum of the sizes of shards."""
    total = 0
    for name in map(os.path.basename, urls):
        shown = escape(name)
        if name not in sizes:
            raise StartupCrash(
                f"KeyError '{shown}': sizes.json next to the first shard does not list it",
                "samples",
            )
        try:
            total += int(sizes[name])  # type: ignore[call-overload]
        except (TypeError, ValueError, OverflowError) as error:
            raised = type(error).__name__
            raise StartupCrash(
                f"{raised}: the entry '{shown}' of sizes.json is no number", "samples"
            ) from error
    if not total:
        raise StartupCrash("RuntimeError: the entries of sizes.json add up to 0", "samples")
    return total


def has_size(urls: Sequence[str], sidecars: Sidecars) -> bool:
    """Return whether sizes.json or __len__ next to the shards has a number of samples."""
    try:
        samples, _ = dataset_size(urls, sidecars)
    except StartupCrash:
        return False
    return 0 < samples < _MOST_SAMPLES


def shard_urls(arguments: Arguments) -> tuple[str, ...] | None:
    """Return the shards that the command names.

    None if it names none, or if they cannot be expanded.
    """
    try:
        return _expanded(arguments.train_data)
    except StartupCrash:
        return None


def _expanded(text: str | None, flag: str = "--train-data") -> tuple[str, ...] | None:
    if not text:
        return None
    try:
        return _bounded(openclip_urls(text), flag)
    except KeyError as error:
        name = escape(str(error.args[0]))
        raise StartupCrash(
            f"AssertionError: {flag} uses the environment variable {name}, which is not set"
        ) from error
    except ValueError as error:
        raise StartupCrash(f"{type(error).__name__}: {flag} has unbalanced braces") from error


def _weighted(text: str, factors: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    from braceexpand import braceexpand

    sources = text.split("::")
    words = factors.split("::")
    try:
        urls, weights = weighted_urls(sources, words, lambda source: _bounded(braceexpand(source)))
    except ValueError as error:
        if len(sources) != len(words):
            raise StartupCrash(f"AssertionError: {error}", "weights") from error
        crash = (
            f"ValueError: --train-data-upsampling-factors {escape(factors)}: {escape(str(error))}"
        )
        raise StartupCrash(crash, "weights") from error
    if not 0 < sum(weights) < math.inf:
        raise StartupCrash(
            "ValueError: the sum of --train-data-upsampling-factors is no number above 0", "weights"
        )
    return tuple(urls), tuple(weights)


def _bounded(urls: Iterator[str], flag: str = "--train-data") -> tuple[str, ...]:
    bounded = tuple(islice(urls, _MOST_URLS + 1))
    if len(bounded) > _MOST_URLS:
        raise StartupCrash(
            f"{flag} names more than {_MOST_URLS:,} shards: several ranges in one word multiply"
        )
    return bounded


def _check_workers(count: int, arguments: Arguments) -> None:
    """Raise the error about fewer shards than workers."""
    needed = arguments.workers * arguments.world_size
    if not arguments.dataset_resampled and count < needed:
        raise StartupCrash(
            f"AssertionError: number of shards must be >= total workers: {count} < {needed} "
            f"({how_many(arguments.world_size, 'rank')} x {how_many(arguments.workers, 'worker')})",
            "shards",
        )


def _check_samples(samples: float, source: str) -> None:
    """Raise the error of a number of samples that OpenCLIP cannot divide, or divide by."""
    if samples > _MOST_SAMPLES:
        raise StartupCrash(f"OverflowError: {source} is too large a number")
    if samples <= 0:
        raise StartupCrash(f"ZeroDivisionError at the first log line: {source} is {samples}")


def _check_type(flag: str, data: str | None, dataset_type: str) -> None:
    """Raise the error of ``--dataset-type auto`` about a name with an unknown extension."""
    if not data or dataset_type != "auto":
        return
    if data.split(".")[-1] not in {"csv", "tsv", "tar"}:
        shown = redact(data).split(".")[-1]
        raise StartupCrash(
            f"ValueError: --dataset-type auto does not know the extension '{escape(shown, 40)}' of {flag}",
            "dataset-type",
        )
