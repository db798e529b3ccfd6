"""The start of open_clip_train up to the first batch, and the files next to the shards that it reads."""

import ast
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, TypeVar

from wdsflow.readers.index_facts import index_facts
from wdsflow.readers.sidecar_facts import (
    SidecarFact,
    compare,
    gone,
    in_words,
    malformed,
    read_json,
    read_text,
    unlisted,
    whole,
    written_by,
)
from wdsflow.records.shard_counts import COUNTS
from wdsflow.records.unfinished import Unfinished, unfinished_run
from wdsflow.records.working_folder import remote_url
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.shards.urls import NoShards, expand
from wdsflow.shards.written_names import compact
from wdsflow.text.secrets import redact
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .arguments import Arguments

# Files next to the shards with numbers of samples, and their faults.
#
# Only local folders are looked at, as OpenCLIP does. Every file is read up to a bound, and nothing
# in it is run.

Url = TypeVar("Url", bound=str)

# Bytes of sizes.json; LAION-5B's would have 10 MB.
_LARGEST = 64 << 20
# Bytes of __len__, which holds one number.
_LEN_LARGEST = 1000
_STATS_LARGEST = 1 << 20
# Options of ``wdsflow index``.
_KINDS = dict(zip(COUNTS, ("sizes", "len"), strict=True))

_MOST_URLS = 1_000_000
# OpenCLIP divides it as a float.
_MOST_SAMPLES = 1e300

CrashKind = Literal["shards", "samples", "dataset-type", "weights", "other"]

_RANGES = re.compile(r"\{[^{}]*\}\S*\s+\S*\{")
# Of a pattern that is advised.
_MOST_SOURCES = 16


@dataclass(slots=True)
class FolderCounts:
    """The counts that one folder holds, as OpenCLIP would read them."""

    # sizes.json, if it is an object.
    sizes: Mapping[str, object] | None = None
    # The exception, if it exists and is not an object.
    sizes_error: str = ""
    # __len__.
    length: int | float | None = None
    length_error: str = ""
    # Shard's base name -> successes, from NNNNN_stats.json.
    stats: dict[str, int] = field(default_factory=dict)
    # Shards that have none, in a folder where others do.
    without_stats: list[str] = field(default_factory=list)
    # The run that has not written all shards.
    unfinished: Unfinished | None = None


@dataclass(slots=True)
class Sidecars:
    """Everything found next to the shards. Folders are named as OpenCLIP does: ``os.path.dirname`` of the url."""

    folders: dict[str, FolderCounts] = field(default_factory=dict)
    facts: list[SidecarFact] = field(default_factory=list)


def read_sidecars(urls: Sequence[str], evidence: Evidence) -> Sidecars:
    """Read sizes.json, __len__, img2dataset's stats and indexes next to the shards, and compare them with the evidence."""
    found = Sidecars()
    by_folder: dict[str, list[ShardEvidence]] = {os.path.dirname(url): [] for url in urls}
    for shard in evidence.shards:
        by_folder.setdefault(os.path.dirname(shard.url), []).append(shard)
    for name, shards in by_folder.items():
        path = name or "."
        if not os.path.isdir(path):
            path = os.path.dirname(shards[0].url.exact) if shards else path
            if remote_url(path) is not None and (run := unfinished_run(path)) is not None:
                found.folders[name] = FolderCounts(unfinished=run)
            continue
        folder = found.folders[name] = FolderCounts(unfinished=unfinished_run(path))
        found.facts += [
            *_sizes(path, folder, shards),
            *_length(path, folder, shards, alone=len(by_folder) == 1),
            *_stats(path, folder, shards),
            *index_facts(path, shards),
        ]
    return found


def _raised(error: Exception) -> str:
    return escape(f"{type(error).__name__}: {error}", 120)


def _sizes(path: str, folder: FolderCounts, shards: Sequence[ShardEvidence]) -> list[SidecarFact]:
    name = os.path.join(path, "sizes.json")
    try:
        sizes = read_json(name, _LARGEST)
    except (OSError, ValueError, RecursionError) as error:
        folder.sizes_error = _raised(error)
        facts = [malformed(name, in_words(error))]
    else:
        if sizes is None and not os.path.isfile(name):
            return []
        if isinstance(sizes, dict):
            folder.sizes = sizes
            facts = [*unlisted(name, sizes, shards), *gone(name, sizes)]
            facts += compare(name, {base: whole(count) for base, count in sizes.items()}, shards)
        else:
            detail = f"it is a {type(sizes).__name__}, not an object"
            folder.sizes_error = f"TypeError: {detail}"
            facts = [malformed(name, detail)]
    files = [each for each in COUNTS if os.path.isfile(os.path.join(path, each))]
    return written_by(facts, path, files, *(_KINDS[each] for each in files))


def _length(
    path: str, folder: FolderCounts, shards: Sequence[ShardEvidence], *, alone: bool
) -> list[SidecarFact]:
    name, detail = os.path.join(path, "__len__"), ""
    try:
        text = read_text(name, _LEN_LARGEST)
        if text is None:
            return []
        # As OpenCLIP does; literals only, and short.
        value = ast.literal_eval(text)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        folder.length_error = _raised(error)
        detail = (
            in_words(error)
            if isinstance(error, (OSError, UnicodeDecodeError))
            else "it holds no number"
        )
    else:
        if isinstance(value, (int, float)):
            folder.length = value
        else:
            detail = f"it holds a {type(value).__name__}, not a number"
            folder.length_error = f"TypeError: {detail}"
    samples = sum(shard.samples for shard in shards)
    facts = [malformed(name, detail)] if detail else []
    if (
        not detail
        and alone
        and folder.sizes is None
        and folder.length != samples
        and not any(s.error for s in shards)
    ):
        facts = [
            SidecarFact(escape(name), "stale", f"says {folder.length:,}; there are {samples:,}")
        ]
    return written_by(facts, path, COUNTS[1:], _KINDS[COUNTS[1]])


def _stats(path: str, folder: FolderCounts, shards: Sequence[ShardEvidence]) -> list[SidecarFact]:
    facts = []
    for shard in shards:
        base = os.path.basename(shard.url)
        name = os.path.join(path, base.partition(".")[0] + "_stats.json")
        try:
            stats = read_json(name, _STATS_LARGEST)
        except (OSError, ValueError, RecursionError) as error:
            facts.append(malformed(name, in_words(error)))
            continue
        successes = whole(stats.get("successes")) if isinstance(stats, dict) else None
        if successes is not None:
            folder.stats[base] = successes
        elif stats is None:
            folder.without_stats.append(base)
    if not folder.stats:
        folder.without_stats.clear()
    return facts + compare(os.path.join(path, "*_stats.json"), folder.stats, shards)


# The steps of open_clip_train before the first batch, in the order in which they raise: get_data,
# get_dataset_fn, expand_urls, get_dataset_size and get_wds_dataset of open_clip_train/data.py,
# which are alike in 3.3.0 and 4.x.


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


class _CrashError(Exception):
    def __init__(self, text: str, kind: CrashKind = "other") -> None:
        super().__init__(text)
        self.kind: CrashKind = kind


def start(arguments: Arguments, scanned: Sequence[str], sidecars: Sidecars | None) -> Start:
    """Return the number of samples that OpenCLIP takes for an epoch, or the exception with which it ends.

    Args:
        arguments: the training command.
        scanned: the shards, if the command does not name them.
        sidecars: the files next to the shards.
    """
    urls: tuple[str, ...] | None = None
    weights: tuple[float, ...] | None = None
    try:
        _kind("--train-data", arguments.train_data, arguments.dataset_type)
        factors = arguments.train_data_upsampling_factors
        samples: int | float
        if arguments.train_num_samples is not None:
            samples, source = arguments.train_num_samples, "--train-num-samples"
        else:
            urls = _expanded(arguments.train_data)
            samples, source = dataset_size(urls or scanned, sidecars or Sidecars())
        if factors is not None and not arguments.dataset_resampled:
            needed = "--train-data-upsampling-factors works with --dataset-resampled only"
            raise _CrashError(f"AssertionError: {needed}", "weights")
        if arguments.train_data and factors is not None:
            urls, weights = _weighted(arguments.train_data, factors)
        else:
            urls = _expanded(arguments.train_data)
        _enough(len(urls or scanned), arguments)
        _kind("--val-data", arguments.val_data, arguments.dataset_type)
        if samples > _MOST_SAMPLES:
            raise _CrashError(f"OverflowError: {source} is too large a number")
        if samples <= 0:
            raise _CrashError(f"ZeroDivisionError at the first log line: {source} is {samples}")
    except _CrashError as crash:
        return Start(crash=str(crash), crash_kind=crash.kind, urls=urls)
    return Start(samples=samples, source=source, urls=urls, weights=weights)


def dataset_size(urls: Sequence[str], sidecars: Sidecars) -> tuple[int | float, str]:
    """Return the number of samples that get_dataset_size reads next to the first shard, and its source."""
    folder = sidecars.folders.get(os.path.dirname(urls[0]))
    if folder is None or (
        folder.sizes is None and not folder.sizes_error and folder.length is None
    ):
        if folder is not None and folder.length_error:
            raise _CrashError(
                f"{folder.length_error}, reading __len__ next to the first shard", "samples"
            )
        missing = "RuntimeError: no --train-num-samples, and neither sizes.json nor __len__ next to the first shard"
        raise _CrashError(missing, "samples")
    if folder.sizes_error:
        raise _CrashError(
            f"{folder.sizes_error}, reading sizes.json next to the first shard", "samples"
        )
    if folder.sizes is None:
        if not folder.length:
            raise _CrashError("RuntimeError: __len__ next to the first shard says 0", "samples")
        assert folder.length is not None
        return folder.length, "__len__"
    total = 0
    for name in map(os.path.basename, urls):
        shown = escape(name)
        if name not in folder.sizes:
            raise _CrashError(
                f"KeyError '{shown}': sizes.json next to the first shard does not list it",
                "samples",
            )
        try:
            total += int(folder.sizes[name])  # type: ignore[call-overload]
        except (TypeError, ValueError, OverflowError) as error:
            raised = type(error).__name__
            raise _CrashError(
                f"{raised}: the entry '{shown}' of sizes.json is no number", "samples"
            ) from error
    if not total:
        raise _CrashError("RuntimeError: the entries of sizes.json add up to 0", "samples")
    return total, "sizes.json"


def has_size(urls: Sequence[str], sidecars: Sidecars) -> bool:
    """Return whether sizes.json or __len__ next to the shards has a number of samples."""
    try:
        return 0 < dataset_size(urls, sidecars)[0] < _MOST_SAMPLES
    except _CrashError:
        return False


def shard_urls(arguments: Arguments) -> tuple[str, ...] | None:
    """Return the shards that the command names; None if it names none, or if they cannot be expanded."""
    try:
        return _expanded(arguments.train_data)
    except _CrashError:
        return None


def openclip_urls(text: str) -> Iterator[str]:
    """Expand ``::``, ``${NAME}`` (environment variable WDS_NAME) and braces, as webdataset's expand_urls does.

    Raises:
        KeyError: the environment variable is not set.
    """
    from braceexpand import braceexpand

    for pattern in text.split("::"):
        whole = pattern
        # A value may name further variables.
        for _ in range(10):
            whole = re.sub(r"\$\{(\w+)\}", lambda match: os.environ[f"WDS_{match[1]}"], whole)
        yield from braceexpand(whole)


def not_expanded(data: str | None) -> dict[str, str]:
    """Return the patterns in ``--train-data`` or ``--val-data`` by which OpenCLIP reads other shards than wdsflow, each with why.

    It takes most of them for the name of one shard.
    """
    reasons = ((pattern, _why_not_expanded(pattern)) for pattern in (data or "").split("::"))
    return {pattern: why for pattern, why in reasons if why}


def _why_not_expanded(pattern: str) -> str:
    if not pattern or pattern.startswith("pipe:"):
        return ""
    if os.path.isfile(pattern):
        return (
            "OpenCLIP expands the braces also if a file has this name; rename the file"
            if _expands(pattern)
            else ""
        )
    if _RANGES.search(pattern):
        return "two ranges with a space between them multiply; put :: between them"
    if " " in pattern.strip() and ".tar " in pattern:
        return "a space is part of the name; put :: between several urls"
    if pattern.startswith("@"):
        return "OpenCLIP reads no lists of urls"
    if pattern.startswith("~"):
        return "~ in quotes stays as it is; write the path in full"
    if "://" not in pattern and re.search(r"[*?\[]", pattern):
        return "OpenCLIP expands no globs: this is one shard of that name; use braces"
    if os.path.isdir(pattern):
        return "OpenCLIP reads no folders; name the shards with braces"
    return ""


def _expands(name: str) -> bool:
    """Return whether OpenCLIP takes the name of a file for a pattern; not if it cannot expand it, which ends the run."""
    try:
        return next(openclip_urls(name)) != name
    except (KeyError, ValueError):
        return False


def with_braces(data: str) -> str:
    """Return ``--train-data`` in a form that OpenCLIP expands to the local shards that wdsflow finds by it; "" if there is none."""
    try:
        urls = expand(
            re.split(r"::|\s+(?=\S*\.tar)", data) if _RANGES.search(data) else [data],
            allow_pipe=False,
        ).urls
    except NoShards:
        return ""
    if any(url.path is None for url in urls):
        return ""
    for sources in range(1, min(len(urls), _MOST_SOURCES) + 1):
        patterns = compact(urls, sources)
        # A name may have braces, or look like a variable that is not set.
        with suppress(KeyError, ValueError):
            if len(patterns) <= sources and list(openclip_urls("::".join(patterns))) == list(urls):
                return "::".join(patterns)
    return ""


def _expanded(text: str | None) -> tuple[str, ...] | None:
    if not text:
        return None
    try:
        return _bounded(openclip_urls(text))
    except KeyError as error:
        name = escape(str(error.args[0]))
        text = (
            f"AssertionError: --train-data uses the environment variable {name}, which is not set"
        )
        raise _CrashError(text) from error
    except ValueError as error:
        raise _CrashError(f"{type(error).__name__}: --train-data has unbalanced braces") from error


def weighted_urls(
    sources: Sequence[str], factors: Sequence[str | float], expand: Callable[[str], Iterable[Url]]
) -> tuple[list[Url], list[float]]:
    """Return the shards of several sources, and a weight for each.

    Raises ValueError if a factor is not a number, or if there are more or fewer of them than
    sources.
    """
    if len(sources) != len(factors):
        raise ValueError(
            f"--train-data has {len(sources)} sources, --train-data-upsampling-factors {len(factors)}"
        )
    weights = [float(factor) for factor in factors]
    found = [
        (url, weight)
        for source, weight in zip(sources, weights, strict=True)
        for url in expand(source)
    ]
    return [url for url, _ in found], [weight for _, weight in found]


def _weighted(text: str, factors: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    from braceexpand import braceexpand

    sources, words = text.split("::"), factors.split("::")
    try:
        urls, weights = weighted_urls(sources, words, lambda source: _bounded(braceexpand(source)))
    except ValueError as error:
        if len(sources) != len(words):
            raise _CrashError(f"AssertionError: {error}", "weights") from error
        text = (
            f"ValueError: --train-data-upsampling-factors {escape(factors)}: {escape(str(error))}"
        )
        raise _CrashError(text, "weights") from error
    if not 0 < sum(weights) < math.inf:
        raise _CrashError(
            "ValueError: the sum of --train-data-upsampling-factors is no number above 0", "weights"
        )
    return tuple(urls), tuple(weights)


def _bounded(urls: Iterator[str]) -> tuple[str, ...]:
    some = tuple(islice(urls, _MOST_URLS + 1))
    if len(some) > _MOST_URLS:
        raise _CrashError(
            f"--train-data names more than {_MOST_URLS:,} shards: several ranges in one word multiply"
        )
    return some


def _enough(count: int, arguments: Arguments) -> None:
    needed = arguments.workers * arguments.world_size
    if not arguments.dataset_resampled and count < needed:
        raise _CrashError(
            f"AssertionError: number of shards must be >= total workers: {count} < {needed} "
            f"({how_many(arguments.world_size, 'rank')} x {how_many(arguments.workers, 'worker')})",
            "shards",
        )


def _kind(flag: str, data: str | None, dataset_type: str) -> None:
    """Raise the error of ``--dataset-type auto`` about a name with an unknown extension."""
    if data and dataset_type == "auto":
        extension = data.split(".")[-1]
        if extension not in {"csv", "tsv", "tar"}:
            shown = redact(data).split(".")[-1]
            raise _CrashError(
                f"ValueError: --dataset-type auto does not know the extension '{escape(shown, 40)}' of {flag}",
                "dataset-type",
            )
